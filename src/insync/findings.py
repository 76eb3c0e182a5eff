"""What an operator should know about one node until it is resolved: damage, repairs, directories set aside.

A note is an event. A finding is a state: it is logged once as a WARNING, and `insync health`,
`insync explain` and the metrics show it until the part that reported it clears it. DescribeConfigs of a broker carries
the findings as one read-only config, `insync.findings`, so that they need no API that Kafka does not have.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from insync.sansio import Outbox

CONFIG_KEY = "insync.findings"

CRITICAL = "critical"
WARNING = "warning"
INFO = "info"
"""Nothing needs to be done: something was repaired."""


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    """What is wrong, as a word for scripts: `log_truncated`, `stray_directory`, ..."""
    subject: str
    """A partition (`orders-0`), a file or a directory."""
    severity: str
    text: str
    """What was found, with offsets and the cause, and what to do if anything."""


class Findings:
    """The findings of one node, in the order in which they were reported."""

    __slots__ = ("_current", "_out", "reported")

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._current: dict[tuple[str, str], Finding] = {}
        self.reported: Counter[str] = Counter()
        """By kind, how many were reported since the process started; for the metrics."""

    def report(self, kind: str, subject: str, text: str, severity: str = WARNING) -> None:
        """Add a finding, or replace the one of this kind and subject. An unchanged finding is not logged again."""
        finding = Finding(kind, subject, severity, text)
        if self._current.get((kind, subject)) == finding:
            return
        self._current[kind, subject] = finding
        self.reported[kind] += 1
        self._out.note("finding", finding=kind, subject=subject, severity=severity, text=text)

    def clear(self, kind: str, subject: str) -> None:
        """Remove a finding; no-op if there is none."""
        if self._current.pop((kind, subject), None) is not None:
            self._out.note("finding_cleared", finding=kind, subject=subject)

    def has(self, kind: str, subject: str) -> bool:
        return (kind, subject) in self._current

    @property
    def is_empty(self) -> bool:
        return not self._current

    def current(self) -> list[Finding]:
        return list(self._current.values())


def encode(findings: list[Finding]) -> str:
    rows = [{"kind": f.kind, "subject": f.subject, "severity": f.severity, "text": f.text} for f in findings]
    return json.dumps(rows, separators=(",", ":"))


def decode(value: str) -> list[Finding]:
    """The findings in the value of a config; empty if it is not `insync.findings`."""
    try:
        rows = json.loads(value)
        return [Finding(*(str(row[name]) for name in ("kind", "subject", "severity", "text"))) for row in rows]
    except (ValueError, TypeError, KeyError):
        return []
