"""OffsetCommit, OffsetFetch, OffsetDelete, expiry."""

from __future__ import annotations

from group_world import READS_T, SESSION, World

from insync.sansio import Client
from insync.wire.errors import ErrorCode
from insync.wire.messages import offset_delete as api

MINUTE = 60_000


def test_an_offset_counts_once_it_is_committed_to_the_log() -> None:
    world = World()
    world.log.hold()
    token = world.commit(7)
    assert token not in world.answers
    assert world.fetched() == -1
    world.release()
    assert world.commit_error(token) == "none"
    assert world.fetched() == 7


def test_a_commit_that_fails_changes_nothing() -> None:
    world = World()
    world.committed(7)
    for error, told in (
        (ErrorCode.not_enough_replicas, "coordinator_not_available"),
        (ErrorCode.request_timed_out, "coordinator_not_available"),
        (ErrorCode.not_leader_or_follower, "not_coordinator"),
        (ErrorCode.message_too_large, "invalid_commit_offset_size"),
        (ErrorCode.corrupt_message, "unknown_server_error"),
    ):
        world.log.error = error
        assert world.committed(8) == told
    assert world.fetched() == 7


def test_who_never_committed_starts_at_minus_one_without_an_error() -> None:
    """W21."""
    world = World()
    assert world.fetched("unheard-of") == -1
    world.committed(7)
    assert world.fetched(partition=1) == -1
    assert not world.groups.get("unheard-of")


def test_all_offsets_of_a_group_are_told_when_none_are_named() -> None:
    world = World()
    for partition in (2, 0):
        world.committed(partition + 10, partition=partition)
    world.committed(5, topic="u")
    found = world.fetch_group("g", None)
    offsets = {(t.name, p.partition_index): p.committed_offset for t in found.topics for p in t.partitions}
    assert offsets == {("t", 2): 12, ("t", 0): 10, ("u", 0): 5}


def test_what_was_committed_is_told_with_its_epoch_and_metadata() -> None:
    world = World()
    world.committed(7, metadata="note")
    line = world.fetch_group("g", None).topics[0].partitions[0]
    assert (line.committed_offset, line.committed_leader_epoch, line.metadata) == (7, 3, "note")
    world.committed(7, metadata=None)
    assert world.fetch_group("g", None).topics[0].partitions[0].metadata == ""


def test_metadata_has_a_limit() -> None:
    world = World(offset_metadata_max_bytes=4)
    assert world.committed(1, metadata="12345") == "offset_metadata_too_large"
    assert world.committed(1, metadata="1234") == "none"
    world = World(offset_metadata_max_bytes=100_000)
    assert world.committed(1, metadata="x" * 32_768) == "offset_metadata_too_large"
    assert world.committed(1, metadata="x" * 32_767) == "none"


def test_partitions_that_do_not_exist_have_no_offsets() -> None:
    world = World()
    assert world.committed(1, topic="nothing") == "unknown_topic_or_partition"
    assert world.committed(1, partition=8) == "unknown_topic_or_partition"
    assert world.log.batches == []


def test_nobody_commits_past_the_members_of_a_group() -> None:
    world = World()
    world.stable(1)
    assert world.committed(1) == "unknown_member_id"
    assert world.committed(1, member_id="x", generation=1) == "unknown_member_id"


def test_nobody_commits_between_a_generation_and_its_assignment() -> None:
    world = World()
    member, token = world.enter()
    world.advance(SESSION // 2)
    generation = world.answers[token].generation_id
    assert world.committed(1, member_id=member, generation=generation) == "rebalance_in_progress"


def test_members_may_commit_while_a_rebalance_gathers() -> None:
    """A consumer commits what it has read before it joins again."""
    world = World()
    ids, generation = world.stable(2)
    world.enter()
    assert world.committed(1, member_id=ids[0], generation=generation) == "none"


def test_a_member_of_an_unknown_group_is_told_so_in_words_it_knows() -> None:
    world = World()
    assert world.committed(1, member_id="x", generation=3, client=Client(version=9)) == "group_id_not_found"
    assert world.committed(1, member_id="x", generation=3, client=Client(version=8)) == "illegal_generation"
    assert not world.groups


def test_a_new_coordinator_knows_every_acknowledged_offset() -> None:
    world = World()
    ids, generation = world.stable(2)
    for n in range(5):
        world.committed(n, member_id=ids[0], generation=generation, partition=n % 2)
    world = world.reloaded()
    assert (world.fetched(partition=0), world.fetched(partition=1)) == (4, 3)
    assert world.heartbeat(ids[0], generation) == "none"
    assert world.answers[world.sync(ids[1], generation)].assignment == ids[1].encode()


def test_members_of_the_last_coordinator_have_a_session_to_come_back() -> None:
    world = World()
    ids, generation = world.stable(2)
    world = world.reloaded()
    world.advance(SESSION - 1)
    assert world.heartbeat(ids[0], generation) == "none"
    world.advance(2)
    assert list(world.groups["g"].members) == [ids[0]]


def test_offsets_are_deleted_unless_the_group_reads_the_topic() -> None:
    world = World()
    ids, generation = world.stable(1, protocols=READS_T)
    for topic in "tu":
        world.committed(1, topic=topic, member_id=ids[0], generation=generation)
    lines = [world.delete_offset(topic=topic).topics[0].partitions[0].error_code.name for topic in "tu"]
    assert lines == ["group_subscribed_to_topic", "none"]
    assert (world.fetched(topic="t"), world.fetched(topic="u")) == (1, -1)
    assert world.reloaded().fetched(topic="u") == -1


def test_offsets_of_other_groups_with_members_are_not_deleted() -> None:
    world = World()
    world.stable(1, kind="connect")
    assert world.delete_offset().error_code is ErrorCode.non_empty_group
    assert world.delete_offset("nobody").error_code is ErrorCode.group_id_not_found


def test_an_offset_on_its_way_is_deleted_too() -> None:
    world = World()
    world.log.hold()
    world.commit(7)
    world.tokens += 1
    token = world.tokens
    line = api.OffsetDeleteRequestPartition(partition_index=0)
    request = api.OffsetDeleteRequest(
        group_id="g", topics=(api.OffsetDeleteRequestTopic(name="t", partitions=(line,)),)
    )
    world.coordinator.delete_offsets(request, token, world.now)
    world.release()
    assert world.answers[token].error_code is ErrorCode.none
    assert world.fetched() == world.reloaded().fetched() == -1


def test_offsets_go_with_their_topic() -> None:
    world = World()
    world.committed(1)
    world.committed(1, topic="u")
    world.coordinator.topics_deleted({"t": None}, world.now)
    assert (world.fetched(topic="t"), world.fetched(topic="u")) == (-1, 1)


def test_offsets_without_a_group_expire_after_their_last_commit() -> None:
    world = World(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    world.committed(1)
    world.advance(30 * MINUTE)
    world.committed(2, topic="u")
    world.advance(31 * MINUTE)
    assert (world.fetched(topic="t"), world.fetched(topic="u")) == (-1, 2)
    assert world.reloaded().fetched() == -1
    world.advance(31 * MINUTE)
    assert not world.groups


def test_offsets_of_a_group_expire_once_it_has_been_empty_that_long() -> None:
    world = World(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    ids, generation = world.stable(1, protocols=READS_T)
    world.committed(1, member_id=ids[0], generation=generation)
    for _ in range(120 * MINUTE // 5_000):
        world.advance(5_000)
        world.heartbeat(ids[0], generation)
    assert world.fetched() == 1, "the group reads the topic"
    world.leave((ids[0], None))
    world.advance(59 * MINUTE)
    assert world.fetched() == 1
    world.advance(2 * MINUTE)
    assert world.fetched() == -1
    world.advance(MINUTE)
    assert not world.groups
    assert not world.reloaded().groups


def test_offsets_of_a_topic_that_the_members_no_longer_read_expire() -> None:
    world = World(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    ids, generation = world.stable(1, protocols=READS_T)
    for topic in "tu":
        world.committed(1, topic=topic, member_id=ids[0], generation=generation)
    for _ in range(61 * MINUTE // 5_000):
        world.advance(5_000)
        world.heartbeat(ids[0], generation)
    assert (world.fetched(topic="t"), world.fetched(topic="u")) == (1, -1)


def test_old_clients_may_say_how_long_an_offset_is_kept() -> None:
    """OffsetCommit up to version 4; it is remembered by the next coordinator too."""
    world = World(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    world.committed(1, retention=5 * MINUTE)
    world.committed(2, topic="u", retention=-1)
    world.committed(3, topic="t", partition=1, retention=2**62)
    again = world.reloaded(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    again.advance(4 * MINUTE)
    assert again.fetched() == 1
    again.advance(2 * MINUTE)
    assert again.fetched() == -1
    again.advance(70 * MINUTE)
    assert (again.fetched(topic="u"), again.fetched(partition=1)) == (-1, 3)


def test_a_commit_that_timed_out_still_counts_when_it_is_replicated() -> None:
    """G2: memory holds what a new coordinator would load, whatever the client was answered."""
    world = World()
    assert world.committed(1) == "none"
    world.log.hold()
    token = world.commit(2)
    world.log.time_out(world.now)
    world.drain()
    assert world.commit_error(token) == "coordinator_not_available"
    assert world.fetched() == world.reloaded().fetched() == 1
    world.log.commit_late(world.now)
    assert world.fetched() == world.reloaded().fetched() == 2


def test_a_commit_that_is_refused_leaves_nothing_behind() -> None:
    """G2: not even the group, which was made for it."""
    world = World()
    world.log.error = ErrorCode.not_enough_replicas
    assert world.committed(1) == "coordinator_not_available"
    assert world.coordinator.shards[0].groups == {}
