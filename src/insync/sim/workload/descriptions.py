"""The requests by which tools list and describe a cluster."""

from __future__ import annotations

import random

from insync.metadata.partition import PartitionKey
from insync.sansio import Message
from insync.sim.workload.client import Leader
from insync.wire.messages import (
    api_versions,
    describe_acls,
    describe_client_quotas,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    list_partition_reassignments,
    list_transactions,
    metadata,
)
from insync.wire.messages import describe_cluster as cluster_api
from insync.wire.messages import describe_configs as configs_api
from insync.wire.types import METADATA_TOPIC

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
ANY, ANY_PATTERN = 1, 1


def describe_cluster(rng: random.Random, key: PartitionKey, leader: Leader) -> list[Message]:
    quorum = describe_quorum.RequestTopic(
        topic_name=METADATA_TOPIC, partitions=(describe_quorum.RequestPartition(partition_index=0),)
    )
    missing = metadata.MetadataRequestTopic(topic_id=None, name=f"auto{rng.randrange(2)}")
    return [
        api_versions.ApiVersionsRequest(client_software_name="tools", client_software_version="1"),
        cluster_api.DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=True),
        describe_quorum.DescribeQuorumRequest(topics=(quorum,)),
        metadata.MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=True
        ),
        metadata.MetadataRequest(
            topics=(missing,), allow_auto_topic_creation=True, include_topic_authorized_operations=False
        ),
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=(describe_topic_partitions.TopicRequest(name=leader.topic),), response_partition_limit=2
        ),
    ]


def describe_configs(rng: random.Random, key: PartitionKey, leader: Leader) -> list[Message]:
    resources = tuple(
        configs_api.DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((TOPIC_RESOURCE, leader.topic), (BROKER_RESOURCE, str(rng.choice((1, 2)))))
    )
    return [configs_api.DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)]


def describe_logs(rng: random.Random, key: PartitionKey, leader: Leader) -> list[Message]:
    producers = describe_producers.TopicRequest(name=leader.topic, partition_indexes=(key[1],))
    return [
        describe_log_dirs.DescribeLogDirsRequest(topics=None),
        describe_producers.DescribeProducersRequest(topics=(producers,)),
        list_transactions.ListTransactionsRequest(),
        describe_transactions.DescribeTransactionsRequest(transactional_ids=("none",)),
    ]


def describe_access(rng: random.Random, key: PartitionKey, leader: Leader) -> list[Message]:
    return [
        describe_acls.DescribeAclsRequest(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY_PATTERN,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        ),
        describe_client_quotas.DescribeClientQuotasRequest(components=(), strict=False),
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
    ]


def list_work(rng: random.Random, key: PartitionKey, leader: Leader) -> list[Message]:
    return [list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)]
