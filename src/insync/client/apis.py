"""The APIs that this client uses, each with the range of versions it supports.

The newest version that client and broker have in common is used. The lower bounds exclude versions that only old
brokers need, or that behave differently: Metadata below 4 creates the topics it is asked about, and OffsetFetch 1
cannot fetch all partitions.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Api:
    name: str
    key: int
    low: int
    high: int


PRODUCE = Api("Produce", 0, 3, 13)
FETCH = Api("Fetch", 1, 4, 17)
LIST_OFFSETS = Api("ListOffsets", 2, 1, 10)
METADATA = Api("Metadata", 3, 4, 13)
OFFSET_COMMIT = Api("OffsetCommit", 8, 2, 9)
OFFSET_FETCH = Api("OffsetFetch", 9, 2, 9)
FIND_COORDINATOR = Api("FindCoordinator", 10, 0, 6)
DESCRIBE_GROUPS = Api("DescribeGroups", 15, 0, 5)
LIST_GROUPS = Api("ListGroups", 16, 0, 5)
SASL_HANDSHAKE = Api("SaslHandshake", 17, 1, 1)
API_VERSIONS = Api("ApiVersions", 18, 0, 3)
CREATE_TOPICS = Api("CreateTopics", 19, 2, 7)
DELETE_TOPICS = Api("DeleteTopics", 20, 1, 6)
INIT_PRODUCER_ID = Api("InitProducerId", 22, 0, 5)
OFFSET_FOR_LEADER_EPOCH = Api("OffsetForLeaderEpoch", 23, 2, 4)
DESCRIBE_ACLS = Api("DescribeAcls", 29, 1, 3)
CREATE_ACLS = Api("CreateAcls", 30, 1, 3)
DELETE_ACLS = Api("DeleteAcls", 31, 1, 3)
DESCRIBE_CONFIGS = Api("DescribeConfigs", 32, 1, 4)
DESCRIBE_LOG_DIRS = Api("DescribeLogDirs", 35, 1, 4)
SASL_AUTHENTICATE = Api("SaslAuthenticate", 36, 0, 2)
CREATE_PARTITIONS = Api("CreatePartitions", 37, 0, 3)
DELETE_GROUPS = Api("DeleteGroups", 42, 0, 2)
ELECT_LEADERS = Api("ElectLeaders", 43, 1, 2)
INCREMENTAL_ALTER_CONFIGS = Api("IncrementalAlterConfigs", 44, 0, 1)
ALTER_REASSIGNMENTS = Api("AlterPartitionReassignments", 45, 0, 1)
LIST_REASSIGNMENTS = Api("ListPartitionReassignments", 46, 0, 0)
DESCRIBE_CLIENT_QUOTAS = Api("DescribeClientQuotas", 48, 0, 1)
ALTER_CLIENT_QUOTAS = Api("AlterClientQuotas", 49, 0, 1)
DESCRIBE_USER_SCRAM_CREDENTIALS = Api("DescribeUserScramCredentials", 50, 0, 0)
ALTER_USER_SCRAM_CREDENTIALS = Api("AlterUserScramCredentials", 51, 0, 0)
DESCRIBE_QUORUM = Api("DescribeQuorum", 55, 0, 2)
DESCRIBE_PRODUCERS = Api("DescribeProducers", 61, 0, 0)
DESCRIBE_CLUSTER = Api("DescribeCluster", 60, 0, 2)
CONSUMER_GROUP_DESCRIBE = Api("ConsumerGroupDescribe", 69, 0, 1)
DESCRIBE_TOPIC_PARTITIONS = Api("DescribeTopicPartitions", 75, 0, 0)


def newest_common_version(api: Api, served: tuple[int, int] | None) -> int | None:
    """The newest version in both ranges; None if they do not overlap."""
    if served is None:
        return None
    version = min(api.high, served[1])
    return version if version >= max(api.low, served[0]) else None
