"""The reason for a failed Spark job is the exception's message, not a line of its stack trace."""

from __future__ import annotations

import pytest

from insync.pipeline.spark_errors import explain_job_failure

JAVA = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3000)
Caused by: java.io.EOFException: the worker is gone
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)
\t... 1 more
"""
PYTHON = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nValueError: no such file\n'


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (JAVA, "Caused by: java.io.EOFException: the worker is gone"),
        (PYTHON, "ValueError: no such file"),
        ("one line", "one line"),
        ("", "no reason given"),
    ],
)
def test_the_reason_is_the_last_line_that_is_not_a_stack_frame(output: str, reason: str) -> None:
    assert explain_job_failure(output) == reason
