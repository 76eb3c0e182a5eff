"""What to read of which log directories."""

from __future__ import annotations

from dataclasses import dataclass

HWM, END = "hwm", "end"
FAIL, ROWS = "fail", "rows"


class LogDirectoryError(ValueError):
    """A directory is not a log directory, or lacks what the options ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    paths: tuple[str, ...]
    """Log directories, without wildcards."""
    brokers: tuple[int, ...] = ()
    """The broker id of each path; if empty, the ids come from the meta.properties files."""
    topics: tuple[str, ...] = ()
    """If empty, all topics but the metadata log."""
    start_offset: int | None = None
    end_offset: int | None = None
    start_time_ms: int | None = None
    """As in Kafka: reading starts at the first record that is not older."""
    end_time_ms: int | None = None
    newer_than_ms: int | None = None
    """Older records need not be read: unlike `start_time_ms`, this holds for records after the first newer one, too."""
    bound: str = HWM
    """HWM: only committed records. END: also what lies above the high watermark."""
    corrupt: str = FAIL
    """FAIL: damage raises DamagedLogError. ROWS: damage becomes a row."""
    include_control: bool = False
    push_filters: bool = False
    """For Spark: conditions of a query limit what is read."""
