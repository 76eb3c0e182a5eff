"""What a mirror knows after a kill: its state, the target's log, and what the source still has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from insync.client.model import Config, TopicPartition
from insync.lake.journal import JournalDamagedError
from insync.lake.store import LakeLockedError
from insync.pipeline.fenced_sender import SEQUENCES, Producer
from insync.pipeline.mirror.groups import Decision, decide, translate_offsets
from insync.pipeline.mirror.offset_map import Anchor, OffsetMap
from insync.pipeline.mirror.resuming import Overlap, find_overlap
from insync.pipeline.mirror.row_digests import RowDigests
from insync.pipeline.mirror.state import FILE, MirroredPartition, MirroredTopic, MirrorPosition, MirrorState
from insync.pipeline.mirror.target import find_config_differences, select_copied


def filled(directory: Path) -> MirrorState:
    state = MirrorState.open(directory)
    state.clusters, state.producer = ("east", "west"), Producer(7, 0)
    state.topics["orders"] = MirroredTopic(id="A", target="copy", target_id="B")
    position = MirrorPosition(rows=10, source=60, target=10, epoch=3, seen=59, trimmed=2)
    state.partitions["orders", 0] = MirroredPartition(
        position, OffsetMap([Anchor(50, 0, 0), Anchor(60, 10, 10)]), ["lost"]
    )
    state.committed["g"] = {("copy", 0): (3, 5)}
    state.save()
    return state


def test_a_state_is_the_same_after_a_restart(tmp_path: Path) -> None:
    with filled(tmp_path) as state, pytest.raises(LakeLockedError, match="another mirror is using"):
        MirrorState.open(tmp_path)
    with MirrorState.open(tmp_path) as loaded:
        assert (loaded.clusters, loaded.producer, loaded.topics) == (state.clusters, state.producer, state.topics)
        assert (loaded.committed, loaded.is_new) == (state.committed, False)
        before, after = state.partitions["orders", 0], loaded.partitions["orders", 0]
        assert (after.position, after.map.anchors, after.losses) == (before.position, before.map.anchors, before.losses)


@pytest.mark.parametrize("damage", [lambda text: text[:-20], lambda text: text.replace('"rows": 10', '"rows": 11')])
def test_a_damaged_state_is_refused(tmp_path: Path, damage: object) -> None:
    filled(tmp_path).__exit__()
    path = tmp_path / FILE
    path.write_text(damage(path.read_text()))  # type: ignore[operator]
    with pytest.raises(JournalDamagedError, match=r"mirror\.json cannot be read: .*checksum is wrong"):
        MirrorState.open(tmp_path)


# --- where a mirror continues ----------------------------------------------------------------------------------------


def log(first: int, digests: list[int], sequence: int = 0) -> RowDigests:
    count = len(digests)
    sequences = (np.arange(sequence, sequence + count)) % SEQUENCES
    return RowDigests(np.arange(first, first + count), np.array(digests, np.uint64), sequences)


def overlap(target: RowDigests, source: RowDigests, *, start: int = 50, trimmed: int = 0, rows: int = 0) -> Overlap:
    extra = int((target.sequences[-1] - rows) % SEQUENCES) + 1
    return find_overlap(rows, extra, target, source, start=start, trimmed=trimmed)


def test_what_the_target_has_already_is_skipped() -> None:
    assert overlap(log(0, [1, 2, 3]), log(50, [1, 2, 3])) == Overlap(3)
    assert overlap(log(0, [1, 2, 3], SEQUENCES - 1), log(50, [1, 2, 3]), rows=SEQUENCES - 1) == Overlap(3)


def test_records_that_the_source_replaced_are_not_skipped() -> None:
    """The source was truncated and has other records at the same offsets."""
    assert overlap(log(0, [1, 2, 3]), log(50, [1, 8, 9])) == Overlap(1, 2)
    assert overlap(log(0, [1, 2, 3]), log(50, [7, 8, 9])) == Overlap(0, 3)
    assert overlap(log(0, [1, 2, 3]), log(50, [1])) == Overlap(1, 2)


def test_of_a_trimmed_source_only_what_is_left_is_skipped() -> None:
    assert overlap(log(0, [1, 2, 3, 4]), log(52, [3, 4]), start=52, trimmed=2) == Overlap(2)
    assert overlap(log(0, [1, 2]), log(59, [8, 9]), start=59, trimmed=9) == Overlap(0)
    assert overlap(log(0, [1, 2, 3]), log(51, [8, 9]), start=51, trimmed=1) == Overlap(0, 3)


def test_of_a_trimmed_source_with_gaps_the_records_tell_how_many_are_left() -> None:
    """Ten offsets were trimmed, which had two records."""
    source = RowDigests(np.array([61, 65]), np.array([3, 4], np.uint64), np.array([-1, -1]))
    assert overlap(log(0, [1, 2, 3, 4]), source, start=60, trimmed=10) == Overlap(2)
    assert overlap(log(0, [1, 2]), source, start=60, trimmed=10) == Overlap(0)


def test_records_that_the_target_compacted_are_skipped_too() -> None:
    target = log(0, [1, 2, 3, 4])
    assert overlap(target.select(np.array([False, True, False, True])), log(50, [1, 2, 3, 4])) == Overlap(4)


# --- groups and configs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "wanted", "ours", "decision"),
    [
        (None, 5, (), Decision.COMMIT),
        (5, 5, (), Decision.KEEP),
        (4, 5, (), Decision.LEAVE),
        (4, 5, (3, 4), Decision.COMMIT),
        (3, 5, (3, 4), Decision.COMMIT),  # killed between noting 4 and committing it
        (9, 5, (3, 4), Decision.LEAVE),
        (4, 2, (3, 4), Decision.COMMIT),  # the group was reset in the source
    ],
)
def test_only_offsets_that_the_mirror_set_are_changed(
    current: int | None, wanted: int, ours: tuple[int, ...], decision: Decision
) -> None:
    assert decide(current, wanted, ours) is decision


def test_offsets_are_translated_for_mirrored_partitions_only(tmp_path: Path) -> None:
    def count(key: TopicPartition, start: int, end: int) -> int | None:
        return None

    with filled(tmp_path) as state:
        state.partitions["orders", 1] = MirroredPartition(
            MirrorPosition(rows=2, source=90, target=2), OffsetMap([Anchor(0, 0, 0), Anchor(90, 2, 2)])
        )
        committed = {("orders", 0): 57, ("orders", 1): 40, ("orders", 2): 1, ("other", 0): 4}
        translated, notes = translate_offsets(state, "g", committed, count)
    assert translated == {("copy", 0): 7, ("copy", 1): 0}
    assert [note[:32] for note in notes] == ["group 'g' on orders-1: offset 40"]


def test_configs_of_the_topic_itself_are_copied() -> None:
    def config(name: str, value: str, source: int = 1) -> Config:
        return Config(name=name, value=value, source=source)

    names = [
        config("cleanup.policy", "compact"),
        config("retention.ms", "60000", source=5),
        config("message.timestamp.type", "LogAppendTime"),
        config("leader.replication.throttled.replicas", "0:1"),
    ]
    copied = select_copied({entry.name: entry for entry in names})
    assert copied == {"cleanup.policy": "compact"}
    assert find_config_differences("t", copied, {"cleanup.policy": config("cleanup.policy", "compact", 5)}) == []
    assert find_config_differences("t", copied, {"cleanup.policy": config("cleanup.policy", "delete", 5)}) == [
        "topic 't': cleanup.policy is 'compact' in the source and 'delete' in the target"
    ]
