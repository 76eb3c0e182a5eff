"""The journal of a replay: the request, the producer id, and how far each partition is.

`LAKE/_replay/<job>/`, unless another directory is named. The first entry is the job. It is written before anything is
sent, so that a continued replay sends the same records under the same producer id. Each round adds an entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from insync.client.model import TopicPartition
from insync.lake.journal import Journal, JournalDamagedError
from insync.lake.store import Store
from insync.pipeline.fenced_sender import Producer
from insync.pipeline.replay.task import Position

DIRECTORY = "_replay"
JOB, PROGRESS, DONE = "job", "progress", "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayJob:
    asked: Mapping[str, Any]
    """The request, compared when a replay continues."""
    ledger_entries: int
    """The ledger's length at the start: later entries are not part of the replay."""
    producer: Producer
    topic_ids: Mapping[str, str]
    starts: Mapping[str, int]
    """Ends of the target partitions before the replay, by `topic-partition` of the lake."""


def job_name(asked: Mapping[str, Any]) -> str:
    """The same request has the same name, so that the same command continues."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


class ReplayState:
    """`with ReplayState.open(directory) as state`; one process at a time."""

    def __init__(self, directory: Store, release: Callable[[], None]) -> None:
        self.directory = directory
        self._journal = Journal(directory)
        self._release = release
        self.job: ReplayJob | None = None
        self.positions: dict[TopicPartition, Position] = {}
        self.done = False

    @staticmethod
    def open(directory: Store) -> ReplayState:
        directory.prepare(purpose="hold the state of a replay")
        state = ReplayState(directory, directory.lock("replay", "lock"))
        try:
            for path, entry in state._journal.load():
                state._apply(path, entry)
        except BaseException:
            state.close()
            raise
        return state

    def __enter__(self) -> ReplayState:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._release()

    def record_job(self, job: ReplayJob) -> ReplayJob:
        self._append({"kind": JOB, **asdict(job)})
        return job

    def record_positions(self, positions: Mapping[TopicPartition, Position]) -> None:
        entries = [
            {"topic": topic, "partition": index, **asdict(position)} for (topic, index), position in positions.items()
        ]
        self._append({"kind": PROGRESS, "positions": entries})

    def record_done(self) -> None:
        self._append({"kind": DONE})

    def _append(self, entry: dict[str, Any]) -> None:
        path = self._journal.next_path
        self._journal.append(entry)
        self._apply(path, entry)

    def _apply(self, path: str, entry: Mapping[str, Any]) -> None:
        rest = {name: value for name, value in entry.items() if name != "kind"}
        try:
            if entry["kind"] == JOB:
                self.job = ReplayJob(**{**rest, "producer": Producer(**rest["producer"])})
            elif entry["kind"] == PROGRESS:
                for fields in rest["positions"]:
                    position = Position(**{name: fields[name] for name in ("rows", "source", "target")})
                    self.positions[fields["topic"], fields["partition"]] = position
            else:
                self.done = True
        except (KeyError, TypeError) as error:
            raise JournalDamagedError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
