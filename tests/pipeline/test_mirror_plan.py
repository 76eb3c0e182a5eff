"""What to mirror next, from the state and the source; what the source has lost is an error unless that is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from insync.pipeline.mirror import plan as mirror_plan
from insync.pipeline.mirror.errors import MirrorError, SourceLossError
from insync.pipeline.mirror.job import MirrorOptions, check_options
from insync.pipeline.mirror.offset_map import Anchor, OffsetMap
from insync.pipeline.mirror.plan import MirrorPlan
from insync.pipeline.mirror.state import MirroredPartition, MirroredTopic, MirrorPosition, MirrorState
from insync.pipeline.rounds import ClusterOptions
from tests.pipeline.fake_view import KEY, A, B, FakeView


@pytest.fixture
def state(tmp_path: Path) -> MirrorState:
    state = MirrorState(tmp_path)
    state.topics["t"] = MirroredTopic(id=str(A), target="t", target_id=str(B))
    return state


def add_partition(state: MirrorState, source: int, *, epoch: int, seen: int) -> None:
    """Mirrored from offset 0 up to `source`."""
    position = MirrorPosition(rows=source, source=source, target=source, epoch=epoch, seen=seen)
    state.partitions[KEY] = MirroredPartition(position, OffsetMap([Anchor(0, 0, 0), Anchor(source, source, source)]))


def make_plan(view: FakeView, state: MirrorState, *, allow_loss: bool = False) -> MirrorPlan:
    topics = view.describe_topics()
    return mirror_plan.make_plan(view, topics, state, {KEY: 4}, allow_loss=allow_loss)  # type: ignore[arg-type]


def test_a_new_partition_begins_with_the_sources_first_record(state: MirrorState) -> None:
    plan = make_plan(FakeView(earliest=3, latest=9), state)
    assert state.partitions[KEY].position == MirrorPosition(rows=0, source=3, target=4)
    assert (plan.ends, plan.backlog(state)) == ({KEY: 9}, {KEY: 6})
    assert plan.notes == ["t-0 begins at offset 3: what was before is no longer in the source"]
    plan.limit_to({KEY: 5})
    assert plan.backlog(state) == {KEY: 2}
    plan.limit_to({})
    assert plan.backlog(state) == {}


def test_a_truncation_is_an_error_even_after_the_log_has_grown_past_it(state: MirrorState) -> None:
    add_partition(state, 10, epoch=3, seen=10)
    view = FakeView(latest=50, epoch=5, ends={3: (3, 8)})
    with pytest.raises(SourceLossError, match=r"offsets 8 to 9 missing .truncation.*Nothing was mirrored over it"):
        make_plan(view, state)
    assert state.partitions[KEY].position.source == 10


def test_after_an_allowed_truncation_the_mirror_continues_at_the_common_offset(state: MirrorState) -> None:
    add_partition(state, 10, epoch=3, seen=10)
    plan = make_plan(FakeView(latest=50, epoch=5, ends={3: (3, 8)}), state, allow_loss=True)
    mirrored = state.partitions[KEY]
    assert mirrored.position == MirrorPosition(rows=10, source=8, target=10)
    assert mirrored.map.anchors == [Anchor(0, 0, 0), Anchor(8, 8, 8), Anchor(8, 10, 10)]
    assert plan.notes == mirrored.losses
    assert make_plan(FakeView(latest=50, epoch=5, ends={3: (3, 8)}), state).notes == []


def test_a_leader_of_a_new_epoch_that_has_everything_is_no_truncation(state: MirrorState) -> None:
    add_partition(state, 10, epoch=3, seen=10)
    assert make_plan(FakeView(latest=50, epoch=5, ends={3: (3, 10)}), state).backlog(state) == {KEY: 40}


def test_records_deleted_before_they_were_mirrored_are_reported(state: MirrorState) -> None:
    add_partition(state, 10, epoch=0, seen=10)
    with pytest.raises(SourceLossError, match=r"offsets 10 to 29 missing .retention."):
        make_plan(FakeView(earliest=30, latest=40), state)
    make_plan(FakeView(earliest=30, latest=40), state, allow_loss=True)
    make_plan(FakeView(earliest=33, latest=40), state, allow_loss=True)
    position = state.partitions[KEY].position
    assert (position.source, position.rows, position.trimmed) == (33, 10, 23)


def test_a_recreated_topic_is_another_one(state: MirrorState) -> None:
    add_partition(state, 10, epoch=0, seen=10)
    with pytest.raises(SourceLossError, match="deleted and recreated"):
        make_plan(FakeView(latest=40, topic_id=B), state)
    make_plan(FakeView(latest=40, topic_id=B), state, allow_loss=True)
    assert state.partitions[KEY].position == MirrorPosition(rows=10, source=0, target=10)


def test_options_that_make_no_sense_are_refused() -> None:
    cluster = ClusterOptions(bootstrap="")
    refused = [
        ({}, "", "name the topics"),
        ({"a": "a"}, "b", "name the topics"),
        ({"a": "c", "b": "c"}, "", "two topics cannot be mirrored into one"),
        ({"a": "x y"}, "", "'x y' is not a valid topic name"),
        ({"__consumer_offsets": "x"}, "", "is an internal topic"),
        ({}, "(", r"--pattern \( is not a regular expression"),
    ]
    for topics, pattern, message in refused:
        with pytest.raises(MirrorError, match=message):
            check_options(MirrorOptions(source=cluster, target=cluster, state="", topics=topics, pattern=pattern))
