"""Tasks with what the driver knew when it planned them, and the driver's questions to a cluster, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from uuid import UUID

import pyarrow as pa
import pytest

from insync.client import apis
from insync.client.errors import ErrorCode
from insync.client.offsets import LATEST
from insync.spark import cluster_view, combined_reader, planning, worker_clients
from insync.spark.batch_reader import BatchReader
from insync.spark.cluster_view import ClusterView
from insync.spark.data_loss import Cause, DataLossError
from insync.spark.executor import read_offsets
from insync.spark.read_task import CombinedTask, ReadTask
from insync.spark.source_options import SourceOptions, read_source_options
from tests.fake_cluster import ALL_VERSIONS, FakeCluster

PARTITIONS = 7
COLUMNS = ("topic", "partition", "offset", "value")


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    """Each partition has three records in two batches; the leaders are brokers 1, 2, 3, 1, ..."""
    with FakeCluster() as made:
        made.add_topic("t", *([i % 3 + 1, (i + 1) % 3 + 1] for i in range(PARTITIONS)))
        for i in range(PARTITIONS):
            made.write("t", i, f"{i}:0", f"{i}:1")
            made.write("t", i, f"{i}:2")
        yield made
    while worker_clients._clients:
        worker_clients._clients.popitem()[1].close()


def source_options(fake: FakeCluster, **options: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": fake.bootstrap, "subscribe": "t", **options}
    return read_source_options(given, streaming=False)


def plan(fake: FakeCluster, **options: str) -> list[ReadTask | CombinedTask]:
    """As executors get them. The requests of planning are forgotten."""
    tasks = BatchReader(source_options(fake, **options), COLUMNS).partitions()
    fake.requests.clear()
    return [pickle.loads(pickle.dumps(task)) for task in tasks]


def read(task: ReadTask | CombinedTask) -> list[tuple[int, int, str]]:
    """(partition, offset, value) of each row."""
    table = pa.Table.from_batches(read_offsets(task))
    rows = zip(*(table.column(name).to_pylist() for name in COLUMNS[1:]), strict=True)
    return [(partition, offset, value.decode()) for partition, offset, value in rows]


def expected_rows(*partitions: int) -> list[tuple[int, int, str]]:
    return [(i, offset, f"{i}:{offset}") for i in partitions for offset in range(3)]


@pytest.fixture
def combined(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> CombinedTask:
    monkeypatch.setattr(planning, "COMBINED_TASKS", 1)
    (task,) = plan(fake)
    assert isinstance(task, CombinedTask)
    return task


# --- one range ---


def test_a_task_asks_only_its_leader(fake: FakeCluster) -> None:
    task = plan(fake)[4]
    assert read(task) == expected_rows(4)
    assert {(broker, name) for broker, name, _ in fake.requests} == {(2, "ApiVersions"), (2, "Fetch")}


def test_the_next_task_uses_the_same_connection(fake: FakeCluster) -> None:
    for task in plan(fake):
        read(task)
    assert sorted(broker for broker, _ in fake.requests_of(apis.API_VERSIONS)) == [1, 2, 3]


def test_a_task_follows_a_leader_that_has_moved(fake: FakeCluster) -> None:
    """F3: it describes its own partition, and no other."""
    task = plan(fake)[4]
    fake.topics["t"].partitions[4].leader = 3
    fake.topics["t"].partitions[4].epoch = 1
    assert read(task) == expected_rows(4)
    assert len(fake.requests_of(apis.DESCRIBE_TOPIC_PARTITIONS)) == 1


def test_a_task_of_a_recreated_topic_reports_it(fake: FakeCluster) -> None:
    task = plan(fake)[4]
    fake.topics["t"].id = UUID(int=77)
    with pytest.raises(DataLossError) as error:
        read(task)
    assert [loss.cause for loss in error.value.losses] == [Cause.RECREATED]


def test_a_task_of_a_deleted_topic_reports_it(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view, "PROPAGATION_TIMEOUT_S", 0.01)
    task = plan(fake)[4]
    del fake.topics["t"]
    with pytest.raises(DataLossError) as error:
        read(task)
    assert [loss.cause for loss in error.value.losses] == [Cause.DELETED]


def test_brokers_that_do_not_compare_ids_are_asked_before_they_are_read(fake: FakeCluster) -> None:
    """Fetch up to version 12 names topics: only their description has the id."""
    fake.versions = {**ALL_VERSIONS, apis.FETCH.key: (4, 12)}
    task = plan(fake)[4]
    assert isinstance(task, ReadTask)
    assert task.leader is None
    fake.topics["t"].id = UUID(int=77)
    with pytest.raises(DataLossError, match="recreated"):
        read(task)


# --- combined ranges ---


def test_a_combined_task_returns_its_ranges_in_order_and_in_one_batch(
    fake: FakeCluster, combined: CombinedTask
) -> None:
    assert read(combined) == expected_rows(*range(PARTITIONS))
    assert len(list(read_offsets(combined))) == 1
    assert {name for _, name, _ in fake.requests} == {"ApiVersions", "Fetch"}


def test_a_combined_task_without_columns_counts(fake: FakeCluster, combined: CombinedTask) -> None:
    for part in combined.parts:
        part.columns = ()
    assert [batch.num_rows for batch in read_offsets(combined)] == [3 * PARTITIONS]


def move_a_leader(fake: FakeCluster) -> None:
    fake.topics["t"].partitions[4].leader = 3
    fake.topics["t"].partitions[4].epoch = 1


def stop_a_broker(fake: FakeCluster) -> None:
    fake.stop(2)
    fake.fenced.append(2)
    for i in (1, 4):
        fake.topics["t"].partitions[i].leader = 3


def refuse_a_fetch(fake: FakeCluster) -> None:
    fake.topics["t"].partitions[3].next_errors = [ErrorCode.offset_out_of_range]


@pytest.mark.parametrize("change", [move_a_leader, stop_a_broker, refuse_a_fetch])
def test_a_combined_task_has_the_same_rows_in_the_same_order_after_a_change(
    fake: FakeCluster, combined: CombinedTask, change: Callable[[FakeCluster], None]
) -> None:
    change(fake)
    assert read(combined) == expected_rows(*range(PARTITIONS))


def test_a_combined_task_with_large_records_reads_its_ranges_one_by_one(
    fake: FakeCluster, combined: CombinedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combined_reader, "MAX_COLLECTED_BYTES", 100)
    assert read(combined) == expected_rows(*range(PARTITIONS))
    assert len(list(read_offsets(combined))) > 1


def test_a_combined_task_reports_what_is_lost(fake: FakeCluster, combined: CombinedTask) -> None:
    fake.topics["t"].partitions[5].start = 2
    with pytest.raises(DataLossError) as error:
        read(combined)
    assert [(loss.cause, loss.partition, loss.first, loss.end) for loss in error.value.losses] == [
        (Cause.RETENTION, 5, 0, 2)
    ]


def test_a_combined_task_skips_what_is_lost_if_it_may(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "COMBINED_TASKS", 1)
    (task,) = plan(fake, failOnDataLoss="false")
    fake.topics["t"].partitions[5].start = 2
    assert read(task) == [row for row in expected_rows(*range(PARTITIONS)) if row[0] != 5 or row[1] == 2]


# --- the driver asks again ---


@pytest.fixture
def view(fake: FakeCluster) -> Iterator[ClusterView]:
    """It has described the topic once."""
    made = ClusterView(source_options(fake))
    made.describe_topics()
    fake.requests.clear()
    yield made
    made.close()


def test_a_topic_that_has_not_changed_is_not_described_again(fake: FakeCluster, view: ClusterView) -> None:
    assert len(view.describe_topics()["t"].partitions) == PARTITIONS
    assert len(fake.requests_of(apis.DESCRIBE_TOPIC_PARTITIONS)) == 1  # pages have two partitions here


def test_new_partitions_are_noticed(fake: FakeCluster, view: ClusterView) -> None:
    fake.topics["t"].partitions.append(fake.topics["t"].partitions[0])
    assert len(view.describe_topics()["t"].partitions) == PARTITIONS + 1


def test_a_recreated_topic_is_noticed(fake: FakeCluster, view: ClusterView) -> None:
    fake.topics["t"].id = UUID(int=77)
    assert view.describe_topics()["t"].id == UUID(int=77)


def test_a_deleted_topic_is_noticed(fake: FakeCluster, view: ClusterView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view, "PROPAGATION_TIMEOUT_S", 0.01)
    del fake.topics["t"]
    assert view.describe_topics(must_exist=False) == {}


def test_a_topic_that_is_created_later_is_noticed(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view, "PROPAGATION_TIMEOUT_S", 0.01)
    view = ClusterView(source_options(fake, subscribe="t,late"))
    assert list(view.describe_topics(must_exist=False)) == ["t"]
    fake.add_topic("late", (1,))
    assert list(view.describe_topics(must_exist=False)) == ["t", "late"]
    view.close()


def test_old_metadata_is_replaced_even_if_nothing_seems_to_have_changed(
    fake: FakeCluster, view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that is cut off does not answer that it was replaced."""
    monkeypatch.setattr(cluster_view, "METADATA_MAX_AGE_S", -1.0)
    move_a_leader(fake)
    assert view.describe_topics()["t"].partitions[4].leader == 3


def test_a_leader_that_has_moved_is_found_and_remembered(fake: FakeCluster, view: ClusterView) -> None:
    move_a_leader(fake)
    keys = [("t", i) for i in range(PARTITIONS)]
    ends = view.list_offsets_and_epochs(dict.fromkeys(keys, LATEST), view.describe_topics())
    assert [end.offset for end in ends.values()] == [3] * PARTITIONS
    assert view.describe_topics()["t"].partitions[4].leader == 3


# --- the clients of a worker ---


def test_the_client_that_was_unused_for_longest_is_closed(fake: FakeCluster) -> None:
    def get(client_id: str) -> object:
        options = source_options(fake)
        return worker_clients.get_client(fake.bootstrap, client_id=client_id, timeout_s=5, settings=options.client)

    first = get("0")
    others = [get(str(i)) for i in range(1, worker_clients.MAX_CLIENTS)]
    assert get("0") is first
    get("new")
    assert get("0") is first
    assert get("1") is not others[0]
    assert len(worker_clients._clients) == worker_clients.MAX_CLIENTS
