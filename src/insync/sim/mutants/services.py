"""Mutants of what clients rely on beside records: consumer groups, queries of offsets, deletion of records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insync.sim.mutants import patches
from insync.sim.mutants.mutant import Mutant, make_mutant
from insync.wire.errors import ErrorCode


def _first_piece_only(original: Any) -> Any:
    def replay(self: Any, index: int, data: bytes, at: int, end: int) -> int:
        original(self, index, data, at, end)
        return end

    return replay


def _one_too_far(original: Any) -> Any:
    def find_epoch_end(state: Any, topic: str, query: Any) -> Any:
        answer = original(state, topic, query)
        return replace(answer, end_offset=answer.end_offset + 1) if answer.end_offset >= 0 else answer

    return find_epoch_end


def _later_time(original: Any) -> Any:
    return lambda self, timestamp, limit_offset: original(self, timestamp + 200, limit_offset)


def _up_to_leo(original: Any) -> Any:
    def delete_records(self: Any, before: int) -> Any:
        hwm, self.hwm = self.hwm, self.leo
        result = original(self, before)
        self.hwm = max(hwm, self.log_start)
        return result

    return delete_records


SERVICE_MUTANTS: tuple[Mutant, ...] = (
    make_mutant(
        "stale-generation-commits",
        "G3",
        "refusing commits of another generation",
        ("groups.offsets:_commit_error", patches.always(ErrorCode.none)),
    ),
    make_mutant(
        "groups-loaded-early",
        "G1",
        "loading groups only once the HWM has reached the start of the epoch",
        ("node.group_role:may_load", patches.always(True)),
    ),
    make_mutant(
        "groups-loaded-in-part",
        "G1",
        "loading the offsets topic to its end, piece by piece",
        ("node.group_role:GroupRole._replay", _first_piece_only),
    ),
    make_mutant(
        "epoch-end-too-far",
        "D1",
        "the exact end of a leader epoch for consumers",
        ("replication.offsets:_find_epoch_end", _one_too_far),
    ),
    make_mutant(
        "time-search-too-late",
        "H5",
        "the first offset of a time",
        ("storage.log:Log.offset_for_timestamp", _later_time),
    ),
    make_mutant(
        "delete-records-past-hwm",
        "H5",
        "deleting records on request only below the high watermark",
        ("storage.log:Log.delete_records", _up_to_leo),
    ),
)
