"""The one line that matters of what Spark and its JVM print when they fail."""

from __future__ import annotations

import re

_THROWN = re.compile(r"(?:[\w$]+\.)+[\w$]*(?:Exception|Error)\b:? ?(.*)")
_KILLED = re.compile(r"Application has been killed. Reason: (.+)")
"""By a master that refuses it, or because none answered; the exception then says only that the context is stopped."""
_NOISE = re.compile(r"\s*(at |\.\.\. |WARNING: |Using Spark's default|Setting default log|To adjust|.* (WARN|INFO) |$)")
_NO_REASON = "no reason given"


class SparkStartError(Exception):
    """Spark cannot be started; the text says what to do."""


class SparkJobError(Exception):
    """A Spark job failed as a whole: none of its results is known."""


def explain_start_failure(output: str) -> str:
    """The first exception's message, or the first lines."""
    if killed := _KILLED.search(output):
        return killed[1]
    lines = [line.strip() for line in output.splitlines() if not _NOISE.match(line)]
    thrown = [match[1] for line in lines if (match := _THROWN.search(line))]
    return next(filter(None, thrown), "") or ". ".join(lines[:2]) or _NO_REASON


def explain_job_failure(output: str) -> str:
    """The last line that is not part of a Java or Python stack trace: the cause comes last."""
    lines = [line.strip() for line in output.splitlines()]
    return next((line for line in reversed(lines) if line and not line.startswith(("at ", "... "))), _NO_REASON)
