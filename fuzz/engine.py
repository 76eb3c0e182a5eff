"""The plain fuzzer: seeds, mutations, and a corpus that changes. The same seed tries the same inputs.

A finding is identified by its exception and the innermost functions of its traceback, so that one defect is reported
once.
"""

from __future__ import annotations

import hashlib
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fuzz import limits
from fuzz.target import Target

_OWN = (__file__, limits.__file__)
_MAX_CORPUS = 400
_KEEP_PROBABILITY = 0.02


@dataclass(frozen=True, slots=True)
class Finding:
    target: str
    data: bytes
    signature: str
    trace: str

    def save(self, directory: Path) -> Path:
        """Write the input, and beside it the traceback."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.target}-{hashlib.sha1(self.signature.encode()).hexdigest()[:10]}"
        path.write_bytes(self.data)
        path.with_suffix(".txt").write_text(f"{self.signature}\n{self.trace}")
        return path


@dataclass(slots=True)
class Report:
    target: str
    executions: int = 0
    seconds: float = 0.0
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.executions / self.seconds if self.seconds else 0.0


def fuzz(target: Target, *, seed: int, executions: int | None = None, seconds: float | None = None) -> Report:
    """Try inputs up to this number, or for this time."""
    report = Report(target.name)
    rng = Random(f"{target.name} {seed}")
    corpus = list(target.seeds())
    started = time.monotonic()
    fresh = iter(list(corpus))
    while (executions is None or report.executions < executions) and (
        seconds is None or time.monotonic() - started < seconds
    ):
        data = (next(fresh, None) if report.executions % 2 == 0 else None) or target.mutate(rng.choice(corpus), rng)
        if _try(target, data, report) and rng.random() < _KEEP_PROBABILITY:
            _keep(corpus, data, rng)
    report.seconds = time.monotonic() - started
    return report


def examine(target: Target, data: bytes) -> Finding | None:
    """Run one input; None if the target keeps its contract."""
    try:
        with limits.limit_resources():
            target.run(data)
    except Exception as error:  # any exception that the target does not document is a finding
        return Finding(target.name, data, signature(error), "".join(traceback.format_exception(error)))
    return None


def signature(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _OWN]
    return f"{type(error).__name__} " + " ".join(f"{Path(f.filename).name}:{f.name}" for f in frames[-3:])


def _try(target: Target, data: bytes, report: Report) -> bool:
    report.executions += 1
    finding = examine(target, data)
    if finding is not None:
        report.findings.setdefault(finding.signature, finding)
    return finding is None


def _keep(corpus: list[bytes], data: bytes, rng: Random) -> None:
    if len(corpus) < _MAX_CORPUS:
        corpus.append(data)
    else:
        corpus[rng.randrange(len(corpus))] = data
