"""Changing configs, and what a changed MinISR does to the ELR (E8).

The ELR is derived again in the same batch as the config: a MinISR that the ISR now meets empties it; a raised one adds
nobody, because who is in neither ISR nor ELR may have missed records while the HWM moved. That a leader may learn of a
raised MinISR late is the concern of `alter_partition.leader_knows_min_isr`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from insync.controller.context import Context
from insync.controller.decision import Decision
from insync.controller.partition_change import PartitionChangeBuilder
from insync.controller.reassignment import OK, Outcome
from insync.metadata import apache_broker_keys, configs, topic_names
from insync.metadata.configs import Resource
from insync.metadata.image import CLUSTER_DEFAULTS, ConfigResource, Image
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_configs as replace_messages
from insync.wire.messages import create_topics
from insync.wire.messages import incremental_alter_configs as messages
from insync.wire.types import NO_DURATION

SET, DELETE, APPEND, SUBTRACT = range(4)

Overlay = dict[ConfigResource, dict[str, str]]
_FROM_TOPIC, _FROM_CLUSTER, _BUILT_IN = 1, 3, 5
"""Kafka's numbers of where a value comes from."""


def problem(resource: Resource, name: str, value: str | None) -> str | None:
    return configs.problem(configs.KEYS[resource], name, value)


def alter(ctx: Context, request: Any, now: int) -> Decision:
    """IncrementalAlterConfigs."""
    made, responses = _decide(ctx, request.resources, lambda _resource, entry: tuple(entry.configs), messages)
    response = messages.IncrementalAlterConfigsResponse(throttle_time=NO_DURATION, responses=responses)
    return Decision(records=() if request.validate_only else made, response=response)


def replace_all(ctx: Context, request: Any, now: int) -> Decision:
    """AlterConfigs: what is named is set, what is not named goes back to its default."""

    def changes(resource: ConfigResource, entry: Any) -> tuple[Any, ...]:
        named = {config.name: None for config in entry.configs}
        dropped = [name for name in ctx.image.configs.get(resource, {}) if name not in named]
        return (
            *(messages.AlterableConfig(name=c.name, config_operation=SET, value=c.value) for c in entry.configs),
            *(messages.AlterableConfig(name=name, config_operation=DELETE, value=None) for name in dropped),
        )

    made, responses = _decide(ctx, request.resources, changes, replace_messages)
    response = replace_messages.AlterConfigsResponse(throttle_time=NO_DURATION, responses=responses)
    return Decision(records=() if request.validate_only else made, response=response)


Changes = Callable[[ConfigResource, Any], tuple[Any, ...]]


def _decide(
    ctx: Context, entries: Sequence[Any], changes: Changes, answers: ModuleType
) -> tuple[tuple[records.MetadataRecord, ...], tuple[Any, ...]]:
    """The records for all resources together, and an answer for each of them."""
    overlay: Overlay = {}
    made: list[records.MetadataRecord] = []
    responses = []
    times_named = Counter((int(entry.resource_type), entry.resource_name) for entry in entries)
    for entry in entries:
        resource = (int(entry.resource_type), entry.resource_name)
        outcome = _check_resource(ctx, resource) if times_named[resource] == 1 else _REPEATED
        if outcome == OK:
            outcome = _change(ctx, resource, changes(resource, entry), overlay, made)
        responses.append(
            answers.AlterConfigsResourceResponse(
                error_code=outcome[0],
                error_message=outcome[1],
                resource_type=entry.resource_type,
                resource_name=entry.resource_name,
            )
        )
    made += _derive_elrs(ctx, overlay)
    return tuple(made), tuple(responses)


_REPEATED: Outcome = (ErrorCode.invalid_request, "The resource is named more than once.")


def _check_resource(ctx: Context, resource: ConfigResource) -> Outcome:
    kind, name = resource
    if kind == Resource.TOPIC and not name:
        return ErrorCode.invalid_request, "Default topic resources are not allowed."
    if kind == Resource.TOPIC:
        known = name in ctx.image.topic_ids
        return OK if known else (topic_names.absence(name), f"The topic '{name}' does not exist.")
    if kind != Resource.BROKER or not (name == "" or configs.is_id(name)):
        return ErrorCode.invalid_request, f"Unexpected resource {kind} {name}"
    if name and int(name) not in ctx.image.brokers:
        return ErrorCode.broker_id_not_registered, f"No such broker: {name}"
    return OK


def _change(
    ctx: Context, resource: ConfigResource, changes: Any, overlay: Overlay, made: list[records.MetadataRecord]
) -> Outcome:
    before = ctx.image.configs.get(resource, {})
    after = dict(before)
    if len({change.name: None for change in changes}) != len(changes):
        return ErrorCode.invalid_request, "A config is named more than once."
    for change in changes:
        outcome = _change_one(resource, change, after)
        if outcome != OK:
            return outcome
    changed = [change.name for change in changes if before.get(change.name) != after.get(change.name)]
    made += [_record(resource, name, after.get(name)) for name in changed]
    overlay[resource] = after
    return OK


def _record(resource: ConfigResource, name: str, value: str | None) -> records.ConfigRecord:
    return records.ConfigRecord(resource_type=resource[0], resource_name=resource[1], name=name, value=value)


def _change_one(resource: ConfigResource, change: Any, values: dict[str, str]) -> Outcome:
    kind, operation = Resource(resource[0]), change.config_operation
    if operation == DELETE:
        values.pop(change.name, None)
        return OK
    if operation not in (SET, APPEND, SUBTRACT):
        return ErrorCode.invalid_request, f"Unknown operation {operation}"
    if change.value is None:
        return ErrorCode.invalid_request, f"Null value not supported for : {change.name}"
    if kind is Resource.BROKER and resource[1] and change.name in configs.AGREED:
        return ErrorCode.invalid_config, f"{change.name} is one for all brokers: set the cluster's default."
    value = change.value
    if operation != SET:
        if not _is_list(kind, change.name):
            word = "APPEND to" if operation == APPEND else "SUBTRACT from"
            return ErrorCode.invalid_config, f"Can't {word} key {change.name} because its type is not LIST."
        key = configs.KEYS[kind].get(change.name)
        value = _edited(values.get(change.name, key.default if key else ""), value, operation)
    outcome = _check_value(kind, change.name, value)
    if outcome == OK:
        values[change.name] = value
    return outcome


def _is_list(kind: Resource, name: str) -> bool:
    key = configs.KEYS[kind].get(name)
    return key.kind in ("list", "replicas") if key is not None else apache_broker_keys.DYNAMIC.get(name) == "LIST"


def _check_value(kind: Resource, name: str, value: str) -> Outcome:
    """As in Kafka, brokers accept unknown configs: plug-ins may read them."""
    if kind is Resource.TOPIC and name not in configs.TOPIC_KEYS:
        return ErrorCode.invalid_config, f"Unknown topic config name: {name}"
    if kind is Resource.TOPIC or name in configs.KEYS[kind]:
        trouble = problem(kind, name, value)
        error = ErrorCode.invalid_config if kind is Resource.TOPIC else ErrorCode.invalid_request
        return OK if trouble is None else (error, trouble)
    if name in apache_broker_keys.FIXED or apache_broker_keys.is_unsafe_to_ignore(name):
        return ErrorCode.invalid_request, f"Cannot update these configs dynamically: Set({name})"
    trouble = apache_broker_keys.type_problem(name, value)
    return OK if trouble is None else (ErrorCode.invalid_request, trouble)


def _edited(old: str, change: str, operation: int) -> str:
    items = dict.fromkeys(item for item in old.split(",") if item)
    for item in change.split(","):
        if operation == APPEND:
            items[item] = None
        else:
            items.pop(item, None)
    return ",".join(items)


# --- E8 --------------------------------------------------------------------------------------------------------------


def _derive_elrs(ctx: Context, overlay: Overlay) -> list[records.PartitionChangeRecord]:
    made = []
    for topic, topic_id in ctx.image.topic_ids.items():
        if (int(Resource.TOPIC), topic) not in overlay and CLUSTER_DEFAULTS not in overlay:
            continue
        min_isr = int(ctx.image.config_with(topic, configs.MIN_ISR, overlay))  # type: ignore[arg-type]
        if min_isr == ctx.image.min_isr(topic):
            continue
        for partition in ctx.image.partitions[topic_id].values():
            record = ctx.build(PartitionChangeBuilder(partition, min_isr, ctx.may_lead))
            if record is not None:
                made.append(record)
    return made


# --- describing ------------------------------------------------------------------------------------------------------


def described(image: Image, own: dict[str, str]) -> tuple[Any, ...]:
    """All configs of a new topic with where each comes from, for the answer to CreateTopics."""
    shared = image.configs.get(CLUSTER_DEFAULTS, {})
    return tuple(_describe(key, own, shared) for _, key in sorted(configs.TOPIC_KEYS.items()))


def _describe(key: configs.ConfigKey, own: dict[str, str], shared: dict[str, str]) -> Any:
    value, source = key.default, _BUILT_IN
    if key.name in own:
        value, source = own[key.name], _FROM_TOPIC
    elif key.synonym in shared:
        value, source = shared[key.synonym], _FROM_CLUSTER
    return create_topics.CreatableTopicConfigs(
        name=key.name, value=value, read_only=False, config_source=source, is_sensitive=False
    )
