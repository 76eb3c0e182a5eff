"""OffsetCommit, OffsetFetch, OffsetDelete, expiry."""

from __future__ import annotations

from insync.sansio import Client
from insync.wire.errors import ErrorCode
from insync.wire.messages import offset_delete as api
from tests.groups.group_harness import SESSION, SUBSCRIBED_TO_T, GroupHarness

MINUTE = 60_000


def test_an_offset_counts_once_it_is_committed_to_the_log() -> None:
    harness = GroupHarness()
    harness.log.hold()
    token = harness.commit(7)
    assert token not in harness.answers
    assert harness.fetched() == -1
    harness.release()
    assert harness.commit_error(token) == "none"
    assert harness.fetched() == 7


def test_a_commit_that_fails_changes_nothing() -> None:
    harness = GroupHarness()
    harness.committed(7)
    for error, expected in (
        (ErrorCode.not_enough_replicas, "coordinator_not_available"),
        (ErrorCode.request_timed_out, "coordinator_not_available"),
        (ErrorCode.not_leader_or_follower, "not_coordinator"),
        (ErrorCode.message_too_large, "invalid_commit_offset_size"),
        (ErrorCode.corrupt_message, "unknown_server_error"),
    ):
        harness.log.error = error
        assert harness.committed(8) == expected
    assert harness.fetched() == 7


def test_a_partition_without_a_committed_offset_has_minus_one_and_no_error() -> None:
    """W21."""
    harness = GroupHarness()
    assert harness.fetched("unheard-of") == -1
    harness.committed(7)
    assert harness.fetched(partition=1) == -1
    assert not harness.groups.get("unheard-of")


def test_a_fetch_without_topics_returns_all_offsets_of_the_group() -> None:
    harness = GroupHarness()
    for partition in (2, 0):
        harness.committed(partition + 10, partition=partition)
    harness.committed(5, topic="u")
    group = harness.fetch_group("g", None)
    offsets = {(t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions}
    assert offsets == {("t", 2): 12, ("t", 0): 10, ("u", 0): 5}


def test_a_committed_offset_is_returned_with_its_epoch_and_metadata() -> None:
    harness = GroupHarness()
    harness.committed(7, metadata="note")
    line = harness.fetch_group("g", None).topics[0].partitions[0]
    assert (line.committed_offset, line.committed_leader_epoch, line.metadata) == (7, 3, "note")
    harness.committed(7, metadata=None)
    assert harness.fetch_group("g", None).topics[0].partitions[0].metadata == ""


def test_metadata_has_a_limit() -> None:
    harness = GroupHarness(offset_metadata_max_bytes=4)
    assert harness.committed(1, metadata="12345") == "offset_metadata_too_large"
    assert harness.committed(1, metadata="1234") == "none"
    harness = GroupHarness(offset_metadata_max_bytes=100_000)
    assert harness.committed(1, metadata="x" * 32_768) == "offset_metadata_too_large"
    assert harness.committed(1, metadata="x" * 32_767) == "none"


def test_partitions_that_do_not_exist_have_no_offsets() -> None:
    harness = GroupHarness()
    assert harness.committed(1, topic="nothing") == "unknown_topic_or_partition"
    assert harness.committed(1, partition=8) == "unknown_topic_or_partition"
    assert harness.log.batches == []


def test_only_members_commit_to_a_group_with_members() -> None:
    harness = GroupHarness()
    harness.stable(1)
    assert harness.committed(1) == "unknown_member_id"
    assert harness.committed(1, member_id="x", generation=1) == "unknown_member_id"


def test_no_member_commits_between_a_generation_and_its_assignment() -> None:
    harness = GroupHarness()
    member, token = harness.enter()
    harness.advance(SESSION // 2)
    generation = harness.answers[token].generation_id
    assert harness.committed(1, member_id=member, generation=generation) == "rebalance_in_progress"


def test_members_may_commit_while_a_rebalance_is_prepared() -> None:
    """A consumer commits what it has read before it joins again."""
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    harness.enter()
    assert harness.committed(1, member_id=ids[0], generation=generation) == "none"


def test_a_member_of_an_unknown_group_gets_an_error_that_its_version_knows() -> None:
    harness = GroupHarness()
    assert harness.committed(1, member_id="x", generation=3, client=Client(version=9)) == "group_id_not_found"
    assert harness.committed(1, member_id="x", generation=3, client=Client(version=8)) == "illegal_generation"
    assert not harness.groups


def test_a_new_coordinator_knows_every_acknowledged_offset() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    for n in range(5):
        harness.committed(n, member_id=ids[0], generation=generation, partition=n % 2)
    harness = harness.reloaded()
    assert (harness.fetched(partition=0), harness.fetched(partition=1)) == (4, 3)
    assert harness.heartbeat(ids[0], generation) == "none"
    assert harness.answers[harness.sync(ids[1], generation)].assignment == ids[1].encode()


def test_members_of_the_previous_coordinator_have_a_session_timeout_to_come_back() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    harness = harness.reloaded()
    harness.advance(SESSION - 1)
    assert harness.heartbeat(ids[0], generation) == "none"
    harness.advance(2)
    assert list(harness.groups["g"].members) == [ids[0]]


def test_offsets_are_deleted_unless_the_group_subscribes_to_the_topic() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(1, protocols=SUBSCRIBED_TO_T)
    for topic in "tu":
        harness.committed(1, topic=topic, member_id=ids[0], generation=generation)
    lines = [harness.delete_offset(topic=topic).topics[0].partitions[0].error_code.name for topic in "tu"]
    assert lines == ["group_subscribed_to_topic", "none"]
    assert (harness.fetched(topic="t"), harness.fetched(topic="u")) == (1, -1)
    assert harness.reloaded().fetched(topic="u") == -1


def test_offsets_of_other_groups_with_members_are_not_deleted() -> None:
    harness = GroupHarness()
    harness.stable(1, kind="connect")
    assert harness.delete_offset().error_code is ErrorCode.non_empty_group
    assert harness.delete_offset("missing").error_code is ErrorCode.group_id_not_found


def test_an_offset_that_is_being_committed_is_deleted_too() -> None:
    harness = GroupHarness()
    harness.log.hold()
    harness.commit(7)
    harness.tokens += 1
    token = harness.tokens
    line = api.OffsetDeleteRequestPartition(partition_index=0)
    request = api.OffsetDeleteRequest(
        group_id="g", topics=(api.OffsetDeleteRequestTopic(name="t", partitions=(line,)),)
    )
    harness.coordinator.delete_offsets(request, token, harness.now)
    harness.release()
    assert harness.answers[token].error_code is ErrorCode.none
    assert harness.fetched() == harness.reloaded().fetched() == -1


def test_offsets_go_with_their_topic() -> None:
    harness = GroupHarness()
    harness.committed(1)
    harness.committed(1, topic="u")
    harness.coordinator.topics_deleted({"t": None}, harness.now)
    assert (harness.fetched(topic="t"), harness.fetched(topic="u")) == (-1, 1)


def test_offsets_without_a_group_expire_after_their_last_commit() -> None:
    harness = GroupHarness(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    harness.committed(1)
    harness.advance(30 * MINUTE)
    harness.committed(2, topic="u")
    harness.advance(31 * MINUTE)
    assert (harness.fetched(topic="t"), harness.fetched(topic="u")) == (-1, 2)
    assert harness.reloaded().fetched() == -1
    harness.advance(31 * MINUTE)
    assert not harness.groups


def test_offsets_of_a_group_expire_once_it_has_been_empty_for_the_retention_time() -> None:
    harness = GroupHarness(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    ids, generation = harness.stable(1, protocols=SUBSCRIBED_TO_T)
    harness.committed(1, member_id=ids[0], generation=generation)
    for _ in range(120 * MINUTE // 5_000):
        harness.advance(5_000)
        harness.heartbeat(ids[0], generation)
    assert harness.fetched() == 1, "the group subscribes to the topic"
    harness.leave((ids[0], None))
    harness.advance(59 * MINUTE)
    assert harness.fetched() == 1
    harness.advance(2 * MINUTE)
    assert harness.fetched() == -1
    harness.advance(MINUTE)
    assert not harness.groups
    assert not harness.reloaded().groups


def test_offsets_of_a_topic_that_no_member_subscribes_to_expire() -> None:
    harness = GroupHarness(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    ids, generation = harness.stable(1, protocols=SUBSCRIBED_TO_T)
    for topic in "tu":
        harness.committed(1, topic=topic, member_id=ids[0], generation=generation)
    for _ in range(61 * MINUTE // 5_000):
        harness.advance(5_000)
        harness.heartbeat(ids[0], generation)
    assert (harness.fetched(topic="t"), harness.fetched(topic="u")) == (1, -1)


def test_old_clients_may_choose_the_retention_of_an_offset() -> None:
    """OffsetCommit up to version 4; the next coordinator knows it too."""
    harness = GroupHarness(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    harness.committed(1, retention=5 * MINUTE)
    harness.committed(2, topic="u", retention=-1)
    harness.committed(3, topic="t", partition=1, retention=2**62)
    again = harness.reloaded(offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE)
    again.advance(4 * MINUTE)
    assert again.fetched() == 1
    again.advance(2 * MINUTE)
    assert again.fetched() == -1
    again.advance(70 * MINUTE)
    assert (again.fetched(topic="u"), again.fetched(partition=1)) == (-1, 3)


def test_a_commit_that_timed_out_still_counts_when_it_is_replicated() -> None:
    """G2: memory holds what a new coordinator would load, whichever answer the client got."""
    harness = GroupHarness()
    assert harness.committed(1) == "none"
    harness.log.hold()
    token = harness.commit(2)
    harness.log.time_out(harness.now)
    harness.drain()
    assert harness.commit_error(token) == "coordinator_not_available"
    assert harness.fetched() == harness.reloaded().fetched() == 1
    harness.log.commit_late(harness.now)
    assert harness.fetched() == harness.reloaded().fetched() == 2


def test_a_commit_that_is_refused_leaves_nothing_behind() -> None:
    """G2: not even the group, which was created for it."""
    harness = GroupHarness()
    harness.log.error = ErrorCode.not_enough_replicas
    assert harness.committed(1) == "coordinator_not_available"
    assert harness.coordinator.shards[0].groups == {}
