"""Metadata, the description of the cluster, and what its administrators see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insync.metadata import topic_names
from insync.node.access import Access
from insync.node.authorization.checks import Narrowed, NodeFacts, Outcome, Refused, Rights, allow, on_cluster
from insync.node.authorization.errors import CLUSTER_ERROR, CLUSTER_REFUSED, MESSAGES, TOPIC_ERROR, TOPIC_REFUSED
from insync.security.acl import CLUSTER_NAME, Operation, ResourceType
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    describe_user_scram_credentials,
    metadata,
)
from insync.wire.types import NO_DURATION

BROKERS = 1
"""Kafka's number for the endpoints of brokers."""


def _check_metadata(request: metadata.MetadataRequest, access: Access, node: NodeFacts) -> Outcome:
    """Topics without Describe are left out of the list of all; who names one learns that it is refused, and not whether
    it exists."""
    kept = request.topics
    lines: tuple[metadata.MetadataResponseTopic, ...] = ()
    if request.topics is not None:
        errors = [_metadata_error(asked, request, access, node) for asked in request.topics]
        kept = tuple([asked for asked, error in zip(request.topics, errors, strict=True) if error is None])
        lines = tuple([error for error in errors if error is not None])
        if not lines and not request.include_topic_authorized_operations:
            return None

    def complete(response: Any) -> Any:
        if response is None:
            return None
        topics = response.topics
        if request.topics is None:
            topics = [t for t in topics if access.may_on_topic(Operation.DESCRIBE, t.name, audited=False)]
        if request.include_topic_authorized_operations:
            topics = [_with_topic_operations(topic, access) for topic in topics]
        return replace(response, topics=(*topics, *lines))

    return Narrowed(request if not lines else replace(request, topics=kept), complete)


def _metadata_error(
    asked: metadata.MetadataRequestTopic, request: metadata.MetadataRequest, access: Access, node: NodeFacts
) -> metadata.MetadataResponseTopic | None:
    image = node.image
    name = asked.name
    if name is None:
        known = image.topics.get(asked.topic_id)  # type: ignore[arg-type]
        if known is None or access.may_on_topic(Operation.DESCRIBE, known):
            return None
        return metadata.MetadataResponseTopic(
            error_code=TOPIC_REFUSED, name=None, topic_id=asked.topic_id, partitions=()
        )
    if not access.may_on_topic(Operation.DESCRIBE, name):
        return metadata.MetadataResponseTopic(error_code=TOPIC_REFUSED, name=name, topic_id=None, partitions=())
    creates = request.allow_auto_topic_creation and node.config.auto_create_topics and node.config.is_broker
    if not creates or name in image.topic_ids or _may_create(name, access):
        return None
    return metadata.MetadataResponseTopic(
        error_code=TOPIC_REFUSED,
        name=name,
        topic_id=None,
        is_internal=name in topic_names.INTERNAL_TOPICS,
        partitions=(),
    )


def _may_create(name: str, access: Access) -> bool:
    return access.may_on_cluster(Operation.CREATE, audited=False) or access.may_on_topic(Operation.CREATE, name)


def _with_topic_operations(topic: Any, access: Access) -> Any:
    """Of Metadata and DescribeTopicPartitions. An unknown id has no name to have rights on."""
    if topic.name is None:
        return topic
    return replace(topic, topic_authorized_operations=access.allowed_operations(ResourceType.TOPIC, topic.name))


def _check_describe_topic_partitions(
    request: describe_topic_partitions.DescribeTopicPartitionsRequest, access: Access, node: NodeFacts
) -> Outcome:
    """A request for all topics becomes one for those that the client may describe: pages are counted without the
    others."""
    first = "" if request.cursor is None else request.cursor.topic_name
    if request.cursor is not None and request.cursor.partition_index < 0:
        return None  # refused whatever it names
    image = node.image
    if request.topics:
        asked = {topic.name: topic for topic in request.topics if topic.name >= first}
        allowed = {name: access.may_on_topic(Operation.DESCRIBE, name) for name in asked}
    else:
        known = [name for name in image.topic_ids if name >= first and image.complete_topic(name) is not None]
        asked = {name: describe_topic_partitions.TopicRequest(name=name) for name in known}
        allowed = {name: access.may_on_topic(Operation.DESCRIBE, name, audited=False) for name in asked}
    kept = tuple([topic for name, topic in asked.items() if allowed[name]])
    lines = tuple(_refused_topic_line(name) for name in asked if request.topics and not allowed[name])
    if not kept:
        return Refused(
            describe_topic_partitions.DescribeTopicPartitionsResponse(throttle_time=NO_DURATION, topics=lines)
        )

    def complete(response: Any) -> Any:
        if response is None:
            return None
        topics = [_with_topic_operations(topic, access) for topic in response.topics]
        return replace(response, topics=(*topics, *lines))

    return Narrowed(replace(request, topics=kept), complete)


def _refused_topic_line(name: str) -> describe_topic_partitions.DescribeTopicPartitionsResponseTopic:
    return describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
        error_code=TOPIC_REFUSED, name=name, topic_id=None, is_internal=False, partitions=()
    )


def _check_describe_cluster(
    request: describe_cluster.DescribeClusterRequest, access: Access, node: NodeFacts
) -> Outcome:
    is_about_brokers = request.endpoint_type == BROKERS and node.config.is_broker
    if not is_about_brokers and not access.may_on_cluster(Operation.ALTER):
        return Refused(
            describe_cluster.DescribeClusterResponse(
                throttle_time=NO_DURATION,
                error_code=CLUSTER_REFUSED,
                error_message=MESSAGES[CLUSTER_REFUSED],
                cluster_id="",
                brokers=(),
            )
        )
    if not request.include_cluster_authorized_operations:
        return None

    def complete(response: Any) -> Any:
        if response is None or response.error_code is not ErrorCode.none:
            return response
        return replace(response, cluster_authorized_operations=cluster_operations(access))

    return Narrowed(request, complete)


def cluster_operations(access: Access) -> int:
    """What DescribeCluster and old versions of Metadata say that the client may do: nothing, if it may not describe the
    cluster."""
    if not access.may_on_cluster(Operation.DESCRIBE):
        return 0
    return access.allowed_operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _refuse_describe_quorum(_: Any) -> describe_quorum.DescribeQuorumResponse:
    return describe_quorum.DescribeQuorumResponse(
        error_code=CLUSTER_REFUSED, error_message=MESSAGES[CLUSTER_REFUSED], topics=(), nodes=()
    )


def _refuse_describe_log_dirs(_: Any) -> describe_log_dirs.DescribeLogDirsResponse:
    return describe_log_dirs.DescribeLogDirsResponse(throttle_time=NO_DURATION, error_code=CLUSTER_REFUSED, results=())


def _refuse_describe_acls(_: Any) -> describe_acls.DescribeAclsResponse:
    return describe_acls.DescribeAclsResponse(
        throttle_time=NO_DURATION,
        error_code=CLUSTER_REFUSED,
        error_message=MESSAGES[CLUSTER_REFUSED],
        resources=(),
    )


def _refuse_describe_client_quotas(_: Any) -> describe_client_quotas.DescribeClientQuotasResponse:
    return describe_client_quotas.DescribeClientQuotasResponse(
        throttle_time=NO_DURATION,
        error_code=CLUSTER_REFUSED,
        error_message=MESSAGES[CLUSTER_REFUSED],
        entries=None,
    )


def _refuse_describe_user_scram_credentials(
    request: describe_user_scram_credentials.DescribeUserScramCredentialsRequest,
) -> describe_user_scram_credentials.DescribeUserScramCredentialsResponse:
    line = describe_user_scram_credentials.DescribeUserScramCredentialsResult(
        user="", error_code=CLUSTER_REFUSED, error_message=MESSAGES[CLUSTER_REFUSED], credential_infos=()
    )
    return describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        throttle_time=NO_DURATION,
        error_code=CLUSTER_REFUSED,
        error_message=MESSAGES[CLUSTER_REFUSED],
        results=(line,) * len(request.users or ()),
    )


API_VERSIONS = Rights("nothing", "", allow)
SASL = Rights("nothing", "", allow)
METADATA = Rights(
    "DESCRIBE on each topic; to create a missing one CREATE on the cluster or the topic",
    f"{TOPIC_ERROR} for a topic that was named; others are left out",
    _check_metadata,
)
DESCRIBE_TOPIC_PARTITIONS = Rights(
    "DESCRIBE on each topic",
    f"{TOPIC_ERROR} for a topic that was named; others are left out",
    _check_describe_topic_partitions,
)
DESCRIBE_CLUSTER = Rights(
    "nothing for brokers, ALTER on the cluster for controllers; DESCRIBE on the cluster to see the allowed operations",
    f"{CLUSTER_ERROR}; no operations",
    _check_describe_cluster,
)
DESCRIBE_LOG_DIRS = on_cluster(Operation.DESCRIBE, _refuse_describe_log_dirs)
DESCRIBE_QUORUM = on_cluster(Operation.DESCRIBE, _refuse_describe_quorum)
DESCRIBE_ACLS = on_cluster(Operation.DESCRIBE, _refuse_describe_acls)
DESCRIBE_USER_SCRAM_CREDENTIALS = on_cluster(Operation.DESCRIBE, _refuse_describe_user_scram_credentials)
DESCRIBE_CLIENT_QUOTAS = on_cluster(Operation.DESCRIBE_CONFIGS, _refuse_describe_client_quotas)
