"""The requests by which tools list groups, and commit to and delete one of their own."""

from __future__ import annotations

from insync.metadata.partition import PartitionKey
from insync.sansio import Message
from insync.sim.workload.client import Leader
from insync.wire.messages import (
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)

GROUP = "tools"
"""A group without members, which the tools commit to and delete."""


def use_group(key: PartitionKey, leader: Leader) -> list[Message]:
    line = offset_commit.OffsetCommitRequestPartition(
        partition_index=key[1], committed_offset=1, committed_metadata="tools"
    )
    gone = offset_delete.OffsetDeleteRequestTopic(
        name=leader.topic, partitions=(offset_delete.OffsetDeleteRequestPartition(partition_index=key[1]),)
    )
    return [
        find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP, "g0")),
        list_groups.ListGroupsRequest(),
        describe_groups.DescribeGroupsRequest(groups=(GROUP, "g0"), include_authorized_operations=True),
        offset_commit.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=(offset_commit.OffsetCommitRequestTopic(name=leader.topic, partitions=(line,)),),
        ),
        offset_fetch.OffsetFetchRequest(groups=(offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=None),)),
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="m", member_epoch=0, topic_partitions=None
        ),
        offset_delete.OffsetDeleteRequest(group_id=GROUP, topics=(gone,)),
        delete_groups.DeleteGroupsRequest(groups_names=(GROUP,)),
    ]
