"""The journal of a replay: what it was asked for, under which producer id it writes, and how far it is.

`LAKE/_replay/<job>/`, unless another place is named. The first entry is the job. It is written before anything is sent,
so that whoever goes on with it sends the same records under the same producer id. Each round adds an entry.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from insync.pipeline.journal import Damaged, Journal
from insync.pipeline.lake import LakeError, locked
from insync.pipeline.ledger import Key
from insync.pipeline.replay.sender import Producer
from insync.pipeline.replay.task import Position

DIRECTORY = "_replay"
JOB, PROGRESS, DONE = "job", "progress", "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    asked: Mapping[str, Any]
    """What the user wanted, to be compared when somebody goes on."""
    ledger_entries: int
    """As many of the lake's ledger as there were at the beginning: what came later is not part of it."""
    producer: Producer
    topic_ids: Mapping[str, str]
    starts: Mapping[str, int]
    """Ends of the target partitions before anything was written, by `topic-partition` of the lake."""


def name_of(asked: Mapping[str, Any]) -> str:
    """The same wish has the same name, so that the same command goes on."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


class State:
    """`with State.open(directory) as state`; one process at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._journal = Journal(directory)
        self._lock = -1
        self.job: Job | None = None
        self.positions: dict[Key, Position] = {}
        self.done = False

    @staticmethod
    def open(directory: Path) -> State:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LakeError(f"{directory} cannot keep the state of a replay: {error.strerror}") from None
        state = State(directory)
        state._lock = locked(directory, "replay")
        try:
            for path, entry in state._journal.load():
                state._adopt(path, entry)
        except BaseException:
            state.close()
            raise
        return state

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._lock)

    def begin(self, job: Job) -> Job:
        self._append({"kind": JOB, **asdict(job)})
        return job

    def progress(self, positions: Mapping[Key, Position]) -> None:
        found = [{"topic": key[0], "partition": key[1], **asdict(at)} for key, at in positions.items()]
        self._append({"kind": PROGRESS, "positions": found})

    def finish(self) -> None:
        self._append({"kind": DONE})

    def _append(self, entry: dict[str, Any]) -> None:
        path = self._journal.next_path
        self._journal.append(entry)
        self._adopt(path, entry)

    def _adopt(self, path: Path, entry: Mapping[str, Any]) -> None:
        rest = {name: value for name, value in entry.items() if name != "kind"}
        try:
            if entry["kind"] == JOB:
                self.job = Job(**{**rest, "producer": Producer(**rest["producer"])})
            elif entry["kind"] == PROGRESS:
                for each in rest["positions"]:
                    at = {name: each[name] for name in ("rows", "source", "target")}
                    self.positions[each["topic"], each["partition"]] = Position(**at)
            else:
                self.done = True
        except (KeyError, TypeError) as error:
            raise Damaged(f"{path} cannot be read: {type(error).__name__}: {error}") from None
