"""The state of a mirror: between which clusters, under which producer id, and how far each partition is.

`DIRECTORY/mirror.json` is replaced as a whole after each round. It may lag behind the target: what was written since is
found in the target's log (see `fenced_sender`). The file must not be lost, because without the producer id a mirror
does not recognize its own records; a target topic with records and without state is refused.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from insync.client.model import TopicPartition
from insync.lake.journal import JournalDamagedError
from insync.lake.store import LocalStore, sync_directory
from insync.pipeline.fenced_sender import Producer
from insync.pipeline.mirror.offset_map import Anchor, OffsetMap

FILE = "mirror.json"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPosition:
    """How far a partition is."""

    rows: int
    """Written so far."""
    source: int
    """The next offset of the source."""
    target: int
    """The offset of the target below which those rows are."""
    epoch: int = -1
    seen: int = -1
    """Leader epoch and end of the source's last batch, as in `data_loss.Continuation`."""
    trimmed: int = 0
    """Offsets before `source` that the source lost after `rows` were counted: the target may have some of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopic:
    id: str
    """Of the source."""
    target: str
    target_id: str


@dataclass(slots=True)
class MirroredPartition:
    position: MirrorPosition
    map: OffsetMap
    losses: list[str] = field(default_factory=list)
    """What was not mirrored, or is no longer in the source, and why."""


class MirrorState:
    """`with MirrorState.open(directory) as state`; one process at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._release: Callable[[], None] = lambda: None
        self.clusters = ("", "")
        """Ids of the source's and the target's cluster; empty before the first run."""
        self.producer = Producer(-1, -1)
        self.topics: dict[str, MirroredTopic] = {}
        """By the source's name."""
        self.partitions: dict[TopicPartition, MirroredPartition] = {}
        self.committed: dict[str, dict[TopicPartition, tuple[int, ...]]] = {}
        """The last two offsets that the mirror set for a group and a partition of the target. An offset is noted here
        before it is committed, so that the mirror recognizes it after a kill."""

    @staticmethod
    def open(directory: Path) -> MirrorState:
        store = LocalStore(directory)
        store.prepare(purpose="hold the state of a mirror")
        release = store.lock("mirror", "lock")
        try:
            state = MirrorState.load(directory)
        except BaseException:
            release()
            raise
        state._release = release
        return state

    @staticmethod
    def load(directory: Path) -> MirrorState:
        """Only to read it: another process may be writing."""
        state = MirrorState(directory)
        path = directory / FILE
        if path.exists():
            try:
                state._apply(_parse(path.read_bytes()))
            except (ValueError, KeyError, TypeError) as error:
                raise JournalDamagedError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
        return state

    def __enter__(self) -> MirrorState:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    @property
    def is_new(self) -> bool:
        return not self.clusters[0]

    def save(self) -> None:
        """Durable when it returns; after a kill, the file is the old one or the new one."""
        content = json.dumps(self._to_dict(), sort_keys=True, indent=1)
        temporary = self.directory / f".{FILE}.new"
        with open(temporary, "w") as file:
            file.write(json.dumps({"crc": zlib.crc32(content.encode())}) + "\n" + content + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.directory / FILE)
        sync_directory(self.directory)

    def _to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "clusters": list(self.clusters),
            "producer": asdict(self.producer),
            "topics": {name: asdict(topic) for name, topic in self.topics.items()},
            "partitions": [
                {
                    "topic": topic,
                    "partition": index,
                    **asdict(mirrored.position),
                    "map": [list(anchor) for anchor in mirrored.map.anchors],
                    "losses": mirrored.losses,
                }
                for (topic, index), mirrored in self.partitions.items()
            ],
            "committed": [
                {"group": group, "topic": topic, "partition": index, "offsets": list(offsets)}
                for group, entries in self.committed.items()
                for (topic, index), offsets in entries.items()
            ],
        }

    def _apply(self, document: dict[str, Any]) -> None:
        source, target = document["clusters"]
        self.clusters = (source, target)
        self.producer = Producer(**document["producer"])
        self.topics = {name: MirroredTopic(**fields) for name, fields in document["topics"].items()}
        for fields in document["partitions"]:
            key = fields.pop("topic"), fields.pop("partition")
            anchors = [Anchor(*anchor) for anchor in fields.pop("map")]
            losses = fields.pop("losses")
            self.partitions[key] = MirroredPartition(MirrorPosition(**fields), OffsetMap(anchors), losses)
        for fields in document["committed"]:
            entries = self.committed.setdefault(fields["group"], {})
            entries[fields["topic"], fields["partition"]] = tuple(fields["offsets"])


def _parse(data: bytes) -> dict[str, Any]:
    head, _, content = data.partition(b"\n")
    if json.loads(head)["crc"] != zlib.crc32(content.removesuffix(b"\n")):
        raise ValueError("its checksum is wrong")
    document: dict[str, Any] = json.loads(content)
    if document["format"] != FORMAT:
        raise ValueError(f"it has format {document['format']}, this version reads {FORMAT}")
    return document
