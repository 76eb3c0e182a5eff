"""Kafka's names for the directory of a log and for the files in it.

A directory is called `<topic>-<partition>`. A file's name is the first offset that it holds, in twenty digits, and a
suffix for its kind.
"""

from __future__ import annotations

from insync.storage.checkpoints import TopicPartition, is_plausible_offset

LOG, INDEX, TIME_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".snapshot"
DROPPED = "-dropped"
"""Suffix of a segment that had been synced and that recovery took out of the log."""


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str, suffix: str) -> int | None:
    """The offset in the name; None if it is not the name of a file of this kind."""
    digits = name.removesuffix(suffix)
    if digits == name or len(digits) != 20 or not digits.isdecimal() or not digits.isascii():
        return None
    return int(digits) if is_plausible_offset(int(digits)) else None


def parse_directory(name: str) -> TopicPartition | None:
    """Topic and partition; None if it is not the name of a log's directory."""
    topic, dash, index = name.rpartition("-")
    return (topic, int(index)) if dash and topic and index.isdecimal() and index.isascii() else None
