"""A Delta Lake table of one topic, written with delta-rs (`deltalake`), without Java.

How far a partition is archived is recorded as application transactions of the same commit: Delta keeps a number per
name, `insync/<partition>/end` and so on, in every checkpoint of its log. A topic id takes two numbers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from uuid import UUID

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from insync.lake.directory import NO_DATE
from insync.lake.ledger import File, Range
from insync.lake.location import read_environment
from insync.lake.store import LakeError, LocalStore, Store
from insync.lake.tables.ledger import (
    CommitUnknownError,
    PartitionState,
    Table,
    TableChangedError,
    TableLedger,
    describe_range,
)
from insync.lake.writer import SCHEMA

PARTITION_BY = ["topic", "date"]
COLUMNS = pa.schema([*SCHEMA, ("topic", pa.string()), ("date", pa.date32())])
ISOLATION = "insync.isolation"
PARTITIONS = "insync/partitions"
_NUMBERS = ("generation", "end", "epoch", "seen", "at_ms")
_HALF = 64


def open_delta_lake(root: Store, settings: Mapping[str, str]) -> TableLedger:
    """The tables below a directory or prefix, each named like its topic."""
    root.prepare()
    options = get_storage_options(root)
    existing = [name for name in root.list_directories() if DeltaTable.is_deltatable(f"{root}/{name}", options)]
    tables = [OpenDeltaTable(root, topic, settings) for topic in existing]
    return TableLedger(root, tables, lambda topic: OpenDeltaTable(root, topic, settings))


def get_storage_options(root: Store) -> dict[str, str]:
    """The environment's settings as delta-rs names them."""
    if isinstance(root, LocalStore):
        return {}
    settings = read_environment()
    is_plain = settings.get("endpoint", "").startswith("http://")
    return {**{f"aws_{name}": value for name, value in settings.items()}, "aws_allow_http": str(is_plain).lower()}


class OpenDeltaTable(Table):
    def __init__(self, root: Store, topic: str, settings: Mapping[str, str]) -> None:
        self.topic = topic
        self.data = root.child(topic)
        self._options = get_storage_options(root)
        if not DeltaTable.is_deltatable(str(self.data), self._options):
            DeltaTable.create(
                str(self.data),
                storage_options=self._options,
                schema=COLUMNS,
                partition_by=PARTITION_BY,
                configuration={ISOLATION: settings["isolation"]},
                raise_if_key_not_exists=False,
            )
        self._table = self._open()
        isolation = self._table.metadata().configuration.get(ISOLATION)
        if isolation is None:
            raise LakeError(f"{self.data} is a Delta table that insync did not create: name another directory")
        if isolation != settings["isolation"]:
            raise LakeError(
                f"{self.data} was created with isolation {isolation}; it cannot change to {settings['isolation']}"
            )

    def _open(self) -> DeltaTable:
        return DeltaTable(str(self.data), storage_options=self._options)

    def load(self) -> dict[int, PartitionState]:
        self._table = self._open()
        count = self._table.transaction_version(PARTITIONS) or 0
        return {index: state for index in range(count) if (state := self._load_partition(index)) is not None}

    def _load_partition(self, index: int) -> PartitionState | None:
        names = (*_NUMBERS, "id_high", "id_low")
        numbers = {name: self._table.transaction_version(f"insync/{index}/{name}") for name in names}
        if any(number is None for number in numbers.values()):
            return None
        high, low = (numbers.pop(name) % (1 << _HALF) for name in ("id_high", "id_low"))
        return PartitionState(partition=index, topic_id=str(UUID(int=(high << _HALF) | low)), **numbers)

    def commit(self, ranges: Sequence[Range], states: Sequence[PartitionState]) -> None:
        now_ms = time.time_ns() // 1_000_000
        actions = [_to_action(file, self.topic, now_ms) for added in ranges for file in added.files]
        try:
            self._table.create_write_transaction(
                actions,
                mode="append",
                schema=self._table.schema(),
                partition_by=PARTITION_BY,
                commit_properties=CommitProperties(
                    app_transactions=self._to_transactions(states),
                    custom_metadata={"insync.ranges": json.dumps([describe_range(added) for added in ranges])},
                    max_commit_retries=0,  # delta-rs would repeat it on a version whose state was not read
                ),
            )
        except CommitFailedError as error:
            raise TableChangedError(str(error)) from None
        except (DeltaError, OSError) as error:
            raise CommitUnknownError(str(error)) from None
        self._table = self._open()

    def _to_transactions(self, states: Sequence[PartitionState]) -> list[Transaction]:
        count = max((self._table.transaction_version(PARTITIONS) or 0, *(state.partition + 1 for state in states)))
        numbers = {PARTITIONS: count}
        for state in states:
            own = {name: getattr(state, name) for name in _NUMBERS}
            topic_id = UUID(state.topic_id).int
            own |= {"id_high": _to_signed(topic_id >> _HALF), "id_low": _to_signed(topic_id % (1 << _HALF))}
            numbers |= {f"insync/{state.partition}/{name}": number for name, number in own.items()}
        return [Transaction(name, number) for name, number in numbers.items()]


def _to_signed(number: int) -> int:
    return number - (1 << _HALF) if number >> (_HALF - 1) else number


def _to_action(file: File, topic: str, now_ms: int) -> AddAction:
    date = file.path.split("/")[-2].removeprefix("date=")
    statistics = {
        "numRecords": file.rows,
        "minValues": {"offset": file.first},
        "maxValues": {"offset": file.last},
        "nullCount": {"offset": 0},
    }
    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values={"topic": topic, "date": None if date == NO_DATE else date},
        modification_time=now_ms,
        data_change=True,
        stats=json.dumps(statistics),
    )
