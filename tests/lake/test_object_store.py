"""Lakes in object stores: conditional puts whose answers get lost, and what a store is asked for."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError
from obstore.store import MemoryStore

from insync.lake import objects
from insync.lake.directory import Lake
from insync.lake.journal import EntryTakenError
from insync.lake.ledger import OPEN, RANGES, Ledger, Range
from insync.lake.location import open_store
from insync.lake.staging import open_file
from insync.lake.store import LakeError, StoreError
from insync.lake.writer import RangeWriter
from tests.lake.lake_rows import make_rows
from tests.lake.lake_stores import URL, use_memory

SETTINGS = {"isolation": "read_committed"}
Put = Callable[..., Any]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(objects, "PAUSE_S", 0.0)
    return use_memory(monkeypatch)


def make_range(start: int, end: int) -> Range:
    return Range(topic="t", topic_id="A", partition=0, generation=0, start=start, end=end)


def interfere(monkeypatch: pytest.MonkeyPatch, *faults: Callable[[Put, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """The next puts go to `faults` instead, one each."""
    put, remaining = obstore.put, iter(faults)

    def put_or_fail(*arguments: Any, **options: Any) -> Any:
        fault = next(remaining, None)
        return put(*arguments, **options) if fault is None else fault(put, arguments, options)

    monkeypatch.setattr(obstore, "put", put_or_fail)


def lose_answer(put: Put, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    put(*arguments, **options)
    raise GenericError("connection closed before message completed")


def lose_answer_and_repeat(put: Put, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """As obstore does after an answer with status 500."""
    put(*arguments, **options)
    raise AlreadyExistsError("status 412")


def lose_request(put: Put, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    raise GenericError("connection refused")


def report_conflict(put: Put, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """As S3 does if two conditional puts run at the same time; the other one may fail, too."""
    raise AlreadyExistsError("status 409")


@pytest.mark.parametrize(
    "faults",
    [
        (lose_answer,),
        (lose_answer_and_repeat,),
        (lose_request, lose_answer),
        (lose_request, lose_request, lose_answer_and_repeat),
        (report_conflict,),
        (lose_request, report_conflict, lose_request, report_conflict),
    ],
)
def test_an_entry_whose_answer_got_lost_is_recognised_and_written_once(
    backend: MemoryStore, monkeypatch: pytest.MonkeyPatch, faults: tuple[Any, ...]
) -> None:
    ledger = Ledger(URL)
    ledger.commit(OPEN, "me")
    interfere(monkeypatch, *faults)
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    ledger.commit(RANGES, "me", ranges=[make_range(10, 20)])
    assert Ledger.load(URL).ranges() == ledger.ranges() == [make_range(0, 10), make_range(10, 20)]
    assert Ledger.load(URL).entries == 3


@pytest.mark.parametrize("fault", [lose_request, report_conflict])
def test_a_lost_request_that_another_process_overtakes_is_fenced(
    backend: MemoryStore, monkeypatch: pytest.MonkeyPatch, fault: Any
) -> None:
    ledger = Ledger(URL)
    ledger.commit(OPEN, "me")
    other = Ledger.load(URL)

    def be_overtaken(put: Put, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        other.commit(RANGES, "me", ranges=[make_range(0, 10)])  # the same, but for the process that writes it
        fault(put, arguments, options)

    interfere(monkeypatch, be_overtaken)
    with pytest.raises(EntryTakenError):
        ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    assert Ledger.load(URL).entries == 2


def test_an_outcome_that_stays_unknown_is_an_error_and_the_ledger_decides_later(
    backend: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last request arrives after all: the next process finds the entry."""
    ledger = Ledger(URL)
    late: list[Callable[[], Any]] = []

    def delay(put: Put, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        late.append(lambda: put(*arguments, **options))
        raise GenericError("timed out")

    interfere(monkeypatch, *[delay] * objects.CREATE_ATTEMPTS)
    with pytest.raises(StoreError, match=r"it is unknown whether s3://units/lake/_ledger/0+\.json was written: timed"):
        ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    late[-1]()
    for arrives in late[:-1]:
        with pytest.raises(AlreadyExistsError):
            arrives()
    with pytest.raises(EntryTakenError):
        ledger.commit(RANGES, "me", ranges=[make_range(0, 20)])
    assert Ledger.load(URL).ranges() == [make_range(0, 10)]


def test_a_second_archiver_takes_over_and_the_first_one_is_fenced(backend: MemoryStore) -> None:
    with Lake.open(URL, SETTINGS) as first, Lake.open(URL, SETTINGS) as second:
        with pytest.raises(EntryTakenError):
            first.ledger.commit(RANGES, first.writer, ranges=[make_range(0, 10)])
        second.ledger.commit(RANGES, second.writer, ranges=[make_range(0, 10)])


def test_a_file_is_uploaded_in_parts_and_read_in_ranges(backend: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PART_BYTES", 5 << 20)
    writer = RangeWriter(URL, topic="t", partition=0, start=0, end=400_000, attempt="ab-1", codec="none")
    for start in range(0, 400_000, 100_000):
        writer.add(make_rows(start, [start + i for i in range(100_000)]))
    (file,) = writer.close()
    store = open_store(URL)
    assert file.bytes > 5 << 20
    assert (store.find(file.path).size, store.checksum(file.path)) == (file.bytes, file.crc)  # type: ignore[union-attr]
    with open_file(store, file.path) as parquet:
        assert parquet.num_row_groups > 1
        assert parquet.read(columns=["offset"]).column(0).to_pylist() == list(range(400_000))
    with pytest.raises(FileNotFoundError, match="No such object: 's3://units/lake/topic=t/nothing'"):
        open_file(store, "topic=t/nothing")


def test_names_are_listed_from_one_on_in_a_directory_only(backend: MemoryStore) -> None:
    store = open_store(URL)
    for name in ("a/1", "a/2", "a/3", "a/below/1", "ab/1", "b"):
        store.create(name, b"data")
    assert store.list_names("a") == store.child("a").list_names("") == ["1", "2", "3"]
    assert store.list_names("a", "2") == store.child("a").list_names("", "2") == ["2", "3"]
    assert store.list_names("nothing") == []
    assert store.list_directories() == ["a", "ab"]
    assert store.child("a").list_directories() == ["below"]
    assert [file.path for file in store.list_files("a")] == ["a/1", "a/2", "a/3", "a/below/1"]
    store.delete("a/1")
    store.delete("a/1")
    with pytest.raises(FileExistsError):
        store.create("a/2", b"other data")


def test_many_entries_are_loaded_in_their_order(backend: MemoryStore) -> None:
    ledger = Ledger(URL)
    for start in range(0, 2_000, 10):
        ledger.commit(RANGES, "me", ranges=[make_range(start, start + 10)])
    loaded = Ledger.load(URL)
    assert [archived.start for archived in loaded.ranges()] == list(range(0, 2_000, 10))
    assert Ledger.load(URL, 70).entries == 70


def test_entries_before_a_checkpoint_are_removed_and_their_names_stay_taken(backend: MemoryStore) -> None:
    suspended = Ledger(URL)
    ledger = Ledger(URL)
    for start in range(0, 1_000, 10):
        ledger.commit(RANGES, "me", ranges=[make_range(start, start + 10)])
    ledger.commit_checkpoint("compactor")
    assert ledger.remove_entries(0, now_s=1e12) == 100
    assert ledger.remove_entries(0, now_s=1e12) == 0
    ledger.commit(RANGES, "me", ranges=[make_range(1_000, 1_010)])
    assert Ledger.load(URL).ranges() == ledger.ranges()
    with pytest.raises(EntryTakenError):
        suspended.commit(RANGES, "other", ranges=[make_range(0, 10)])
    assert len(open_store(URL).list_names("_ledger")) == 102


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    yield
    objects.connect.cache_clear()


@pytest.mark.usefixtures("environment")
def test_a_store_takes_its_settings_to_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("s3a://bucket/some/lake/", {"region": "eu-west-1"})
    assert (str(store), str(store.child("_staged"))) == ("s3://bucket/some/lake", "s3://bucket/some/lake/_staged")
    assert "hidden" not in repr(store)
    pickled = pickle.dumps((store, store.child("_staged")))
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    objects.connect.cache_clear()
    again, child = pickle.loads(pickled)
    assert (again, child) == (store, store.child("_staged"))
    assert again._backend.config["region"] == "eu-west-1"
    assert again._backend.config["endpoint"] == "http://127.0.0.1:9"
    assert child._prefix == "_staged"


@pytest.mark.usefixtures("environment")
def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "MAX_RETRIES", 0)
    with pytest.raises(LakeError, match=r"cannot list s3://bucket/lake/_ledger: .*127\.0\.0\.1:9/bucket"):
        Lake.open("s3://bucket/lake", SETTINGS)
    assert issubclass(StoreError, OSError)  # tasks report it like an error of a disk
