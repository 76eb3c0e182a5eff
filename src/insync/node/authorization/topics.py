"""Topics and configs: what controllers decide entry by entry, and DescribeConfigs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from insync.node.access import Access
from insync.node.authorization import checks
from insync.node.authorization.checks import Check, Entries, NodeFacts, Outcome, Refused, Rights, may_on_topic
from insync.node.authorization.errors import CLUSTER_REFUSED, GROUP_REFUSED, MESSAGES, TOPIC_ERROR, TOPIC_REFUSED
from insync.sansio import Message
from insync.security.acl import Operation
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    incremental_alter_configs,
)
from insync.wire.types import METADATA_TOPIC, NO_DURATION

TOPIC_CONFIGS, BROKER_CONFIGS, BROKER_LOGGERS, CLIENT_METRICS, GROUP_CONFIGS = 2, 4, 8, 16, 32
"""Kafka's numbers of the resources that have configs."""


def _check_create_topics(request: create_topics.CreateTopicsRequest, access: Access, node: NodeFacts) -> Outcome:
    """Who may create a topic may not therefore see its configs."""
    outcome = (
        None if access.may_on_cluster(Operation.CREATE, audited=False) else _check_new_topics(request, access, node)
    )
    if isinstance(outcome, Refused) or all(_may_see_configs(topic.name, access) for topic in request.topics):
        return outcome

    def hide_configs(response: Any) -> Any:
        return replace(
            response,
            topics=tuple(
                topic
                if topic.error_code is not ErrorCode.none or _may_see_configs(topic.name, access)
                else replace(
                    topic,
                    topic_config_error_code=TOPIC_REFUSED.value,
                    num_partitions=-1,
                    replication_factor=-1,
                    configs=(),
                )
                for topic in response.topics
            ),
        )

    return checks.change_response(request, outcome, hide_configs)


def _may_see_configs(name: str, access: Access) -> bool:
    return access.may_on_topic(Operation.DESCRIBE_CONFIGS, name, audited=False)


def _refused_creation(name: str, error: ErrorCode, message: str) -> create_topics.CreatableTopicResult:
    return create_topics.CreatableTopicResult(
        name=name, topic_id=None, error_code=error, error_message=message, configs=()
    )


_check_new_topics = Entries(
    asked="topics",
    answered="topics",
    is_allowed=may_on_topic(Operation.CREATE),
    refuse=lambda topic: (
        _refused_creation(topic.name, ErrorCode.invalid_request, f"Creation of {METADATA_TOPIC} is prohibited.")
        if topic.name == METADATA_TOPIC
        else _refused_creation(topic.name, TOPIC_REFUSED, "Authorization failed.")
    ),
    respond=lambda topics: create_topics.CreateTopicsResponse(throttle_time=NO_DURATION, topics=topics),
    key=lambda topic: topic.name,
    refuse_repeated=lambda topic: _refused_creation(topic.name, ErrorCode.invalid_request, "Duplicate topic name."),
)


def _check_delete_topics(request: delete_topics.DeleteTopicsRequest, access: Access, node: NodeFacts) -> Outcome:
    if access.may_on_cluster(Operation.DELETE, audited=False):
        return None
    deletions = Entries(
        asked="topics",
        answered="responses",
        is_allowed=_may_delete,
        refuse=lambda topic: _refused_deletion(topic, access, node),
        respond=lambda responses: delete_topics.DeleteTopicsResponse(throttle_time=NO_DURATION, responses=responses),
        key=lambda topic: (topic.name, topic.topic_id),
        refuse_repeated=lambda topic: _invalid_deletion(topic, "Duplicate topic."),
    )
    return deletions(request, access, node)


def _may_delete(topic: delete_topics.DeleteTopicState, access: Access, node: NodeFacts) -> bool:
    """As in Kafka a name is refused by Delete and by Describe: an explicit denial of either counts."""
    if topic.name is None:
        name = node.image.topics.get(topic.topic_id)  # type: ignore[arg-type]
        return name is None or access.may_on_topic(Operation.DELETE, name)
    return access.may_on_topic(Operation.DELETE, topic.name) and access.may_on_topic(Operation.DESCRIBE, topic.name)


def _refused_deletion(
    topic: delete_topics.DeleteTopicState, access: Access, node: NodeFacts
) -> delete_topics.DeletableTopicResult:
    """Only a client that may describe a topic gets the name of an id, or learns that a name is unknown."""
    if topic.name is not None and topic.topic_id is not None:
        return _invalid_deletion(topic, "Specify either the name or the id of a topic.")
    name = topic.name
    if name is not None and name not in node.image.topic_ids and access.may_on_topic(Operation.DESCRIBE, name):
        return delete_topics.DeletableTopicResult(
            name=name, topic_id=None, error_code=ErrorCode.unknown_topic_or_partition, error_message=None
        )
    if name is None:
        known = node.image.topics.get(topic.topic_id, "")  # type: ignore[arg-type]
        name = known if access.may_on_topic(Operation.DESCRIBE, known, audited=False) else None
    return delete_topics.DeletableTopicResult(
        name=name, topic_id=topic.topic_id, error_code=TOPIC_REFUSED, error_message=MESSAGES[TOPIC_REFUSED]
    )


def _invalid_deletion(topic: delete_topics.DeleteTopicState, message: str) -> delete_topics.DeletableTopicResult:
    return delete_topics.DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.invalid_request, error_message=message
    )


_check_create_partitions = Entries(
    asked="topics",
    answered="results",
    is_allowed=may_on_topic(Operation.ALTER),
    refuse=lambda topic: create_partitions.CreatePartitionsTopicResult(name=topic.name, error_code=TOPIC_REFUSED),
    respond=lambda results: create_partitions.CreatePartitionsResponse(throttle_time=NO_DURATION, results=results),
    key=lambda topic: topic.name,
    refuse_repeated=lambda topic: create_partitions.CreatePartitionsTopicResult(
        name=topic.name, error_code=ErrorCode.invalid_request, error_message="Duplicate topic name."
    ),
)


# --- configs ---------------------------------------------------------------------------------------------------------


def _may_on_configs(operation: Operation) -> Callable[[Any, Access, NodeFacts], bool]:
    def is_allowed(resource: Any, access: Access, node: NodeFacts) -> bool:
        kind, name = resource.resource_type, resource.resource_name
        if kind == TOPIC_CONFIGS:
            return access.may_on_topic(operation, name)
        if kind == GROUP_CONFIGS:
            return access.may_on_group(operation, name)
        if kind in (BROKER_CONFIGS, BROKER_LOGGERS, CLIENT_METRICS):
            return access.may_on_cluster(operation)
        return True  # there are no such configs, and the handler says so

    return is_allowed


_CONFIG_ERRORS = {TOPIC_CONFIGS: TOPIC_REFUSED, GROUP_CONFIGS: GROUP_REFUSED}


def _config_error(resource: Any) -> ErrorCode:
    return _CONFIG_ERRORS.get(resource.resource_type, CLUSTER_REFUSED)


_check_describe_configs = Entries(
    asked="resources",
    answered="results",
    is_allowed=_may_on_configs(Operation.DESCRIBE_CONFIGS),
    refuse=lambda resource: describe_configs.DescribeConfigsResult(
        error_code=_config_error(resource),
        error_message=MESSAGES[_config_error(resource)],
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    ),
    respond=lambda results: describe_configs.DescribeConfigsResponse(throttle_time=NO_DURATION, results=results),
)


def _check_alter_configs(api: Any, respond: Callable[[tuple[Any, ...]], Message]) -> Check:
    """AlterConfigs and IncrementalAlterConfigs: `api` has the classes of the one or the other."""

    def refused_line(resource: Any, error: ErrorCode, message: str) -> Any:
        return api.AlterConfigsResourceResponse(
            error_code=error,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    return Entries(
        asked="resources",
        answered="responses",
        is_allowed=_may_on_configs(Operation.ALTER_CONFIGS),
        refuse=lambda resource: refused_line(resource, _config_error(resource), MESSAGES[_config_error(resource)]),
        respond=respond,
        key=lambda resource: (resource.resource_type, resource.resource_name),
        refuse_repeated=lambda resource: refused_line(resource, ErrorCode.invalid_request, "Duplicate resource."),
    )


CREATE_TOPICS = Rights(
    "CREATE on the cluster or on each topic; DESCRIBE_CONFIGS on the topic to see its configs",
    f"{TOPIC_ERROR} for the topic, or for its configs",
    _check_create_topics,
)
DELETE_TOPICS = Rights(
    "DELETE on the cluster, or DELETE and DESCRIBE on each topic", f"{TOPIC_ERROR} for the topic", _check_delete_topics
)
CREATE_PARTITIONS = Rights("ALTER on each topic", f"{TOPIC_ERROR} for the topic", _check_create_partitions)

_CONFIG_REFUSAL = "the error of its type for the resource"
DESCRIBE_CONFIGS = Rights(
    "DESCRIBE_CONFIGS on the topic, the group, or for others the cluster", _CONFIG_REFUSAL, _check_describe_configs
)
_ALTER_NEEDS = "ALTER_CONFIGS on the topic, the group, or for others the cluster"
ALTER_CONFIGS = Rights(
    _ALTER_NEEDS,
    _CONFIG_REFUSAL,
    _check_alter_configs(
        alter_configs, lambda lines: alter_configs.AlterConfigsResponse(throttle_time=NO_DURATION, responses=lines)
    ),
)
INCREMENTAL_ALTER_CONFIGS = Rights(
    _ALTER_NEEDS,
    _CONFIG_REFUSAL,
    _check_alter_configs(
        incremental_alter_configs,
        lambda lines: incremental_alter_configs.IncrementalAlterConfigsResponse(
            throttle_time=NO_DURATION, responses=lines
        ),
    ),
)
