"""Results and aims: samples by row and side, medians, ratios, the table, JSON.

A ratio is how many times better than Kafka's insync's figure is, whichever direction is better for that row.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from common import table

INSYNC = "insync"
KAFKA = "kafka"

Met = Callable[[float, float | None], bool | None]
"""Whether the aim is reached, given insync's figure and its ratio to Kafka's; None if it needs Kafka's."""


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    title: str
    unit: str
    less_is_better: bool = True
    aim: str = ""
    met: Met | None = None


@dataclass(slots=True)
class Results:
    kafka_says: str
    """Kafka's name and version, or why it is not measured."""
    kafka_measured: bool
    rows: dict[Row, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, row: Row, side: str, value: float) -> None:
        self.rows.setdefault(row, {}).setdefault(side, []).append(value)
        print(f"    {side:7} {row.title}: {_number(value)} {row.unit}", flush=True)

    def median(self, row: Row, side: str) -> float | None:
        samples = self.rows.get(row, {}).get(side)
        return statistics.median(samples) if samples else None

    def ratio(self, row: Row) -> float | None:
        ours, theirs = self.median(row, INSYNC), self.median(row, KAFKA)
        if not ours or not theirs:
            return None
        return theirs / ours if row.less_is_better else ours / theirs

    def verdict(self, row: Row) -> str:
        ours, ratio = self.median(row, INSYNC), self.ratio(row)
        if row.met is None or ours is None:
            return ""
        return {True: "yes", False: "no", None: ""}[row.met(ours, ratio)]

    def print(self) -> None:
        columns = ("", "unit", "insync", self.kafka_says, "times better", "aim", "reached")
        table("a cluster of three, replication factor 3 (medians)", columns, [self._line(row) for row in self.rows])

    def _line(self, row: Row) -> tuple[str, ...]:
        ratio = self.ratio(row)
        return (
            row.title,
            row.unit,
            _number(self.median(row, INSYNC)),
            _number(self.median(row, KAFKA)),
            "-" if ratio is None else f"{ratio:.2f}",
            row.aim or "-",
            self.verdict(row) or "-",
        )

    def write(self, path: Path) -> None:
        document = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
            "kafka": self.kafka_says,
            "rows": [self._document(row) for row in self.rows],
        }
        path.write_text(json.dumps(document, indent=2) + "\n")

    def _document(self, row: Row) -> dict[str, object]:
        sides = {
            side: {"median": statistics.median(samples), "samples": samples} for side, samples in self.rows[row].items()
        }
        return {
            "key": row.key,
            "title": row.title,
            "unit": row.unit,
            **sides,
            "times_better": self.ratio(row),
            "aim": row.aim,
            "reached": self.verdict(row),
        }


def below(limit: float) -> Met:
    return lambda ours, _: ours <= limit


def at_least_kafka(_: float, ratio: float | None) -> bool | None:
    return None if ratio is None else ratio >= 1


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}" if value < 10 else f"{value:.1f}"
