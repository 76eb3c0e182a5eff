"""Changing configs, and what a changed MinISR does to the ELR (E8).

The ELR is derived again before the config changes, or in the same batch: a MinISR that the ISR now meets empties it; a
raised one adds no replica, because one that is in neither ISR nor ELR may have missed records while the HWM moved. That
a leader may learn of a raised MinISR late is the concern of `alter_partition.leader_knows_min_isr`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

from insync.controller.context import Context
from insync.controller.decision import Decision, Slices
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


def alter(ctx: Context, request: Any, now: int) -> Slices:
    """IncrementalAlterConfigs."""

    def changes(_resource: ConfigResource, entry: Any) -> tuple[Any, ...]:
        return tuple(entry.configs)

    def answer(responses: tuple[Any, ...]) -> Any:
        return messages.IncrementalAlterConfigsResponse(throttle_time=NO_DURATION, responses=responses)

    yield from _decide(ctx, request, changes, messages, answer)


def replace_all(ctx: Context, request: Any, now: int) -> Slices:
    """AlterConfigs: what is named is set, what is not named goes back to its default."""

    def changes(resource: ConfigResource, entry: Any) -> tuple[Any, ...]:
        named = {config.name: None for config in entry.configs}
        dropped = [name for name in ctx.image.configs.get(resource, {}) if name not in named]
        return (
            *(messages.AlterableConfig(name=c.name, config_operation=SET, value=c.value) for c in entry.configs),
            *(messages.AlterableConfig(name=name, config_operation=DELETE, value=None) for name in dropped),
        )

    def answer(responses: tuple[Any, ...]) -> Any:
        return replace_messages.AlterConfigsResponse(throttle_time=NO_DURATION, responses=responses)

    yield from _decide(ctx, request, changes, replace_messages, answer)


Changes = Callable[[ConfigResource, Any], tuple[Any, ...]]


def _decide(
    ctx: Context, request: Any, changes: Changes, answers: Any, answer: Callable[[tuple[Any, ...]], Any]
) -> Slices:
    """E8: the ELRs that a lower MinISR makes obsolete are emptied before the leaders hear of it, in whatever many
    slices. Once a leader goes by the new value, its HWM moves on without the members of the ELR."""
    while True:
        made, overlay, responses = _records(ctx, request.resources, changes, answers)
        if request.validate_only:
            yield Decision(response=answer(responses))
            return
        elrs = _derive_elrs(ctx, overlay, reassigning=False)
        if len(elrs) < ctx.slice_records:
            # R2: what completes a reassignment goes by the new MinISR, so it does not come before it.
            made += [*elrs, *_derive_elrs(ctx, overlay, reassigning=True)]
            yield Decision(records=tuple(made), response=answer(responses))
            return
        yield Decision(records=tuple(elrs))
        ctx.cause = "configs change"


def _records(
    ctx: Context, entries: Sequence[Any], changes: Changes, answers: Any
) -> tuple[list[records.MetadataRecord], Overlay, tuple[Any, ...]]:
    """The records for all resources together, the configs that they make, and an answer per resource."""
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
    return made, overlay, tuple(responses)


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


def _derive_elrs(ctx: Context, overlay: Overlay, *, reassigning: bool) -> list[records.PartitionChangeRecord]:
    """Of the partitions that are being reassigned, or of one slice of the others."""
    made: list[records.PartitionChangeRecord] = []
    for topic_id, min_isr in _changed_min_isrs(ctx.image, overlay):
        for partition in ctx.image.partitions[topic_id].values():
            if len(made) >= ctx.slice_records and not reassigning:
                return made
            if partition.reassigning != reassigning:
                continue
            if not (partition.elr or partition.last_known_elr or reassigning):
                continue  # nothing depends on MinISR
            record = ctx.build(PartitionChangeBuilder(partition, min_isr, ctx.may_lead))
            if record is not None:
                made.append(record)
    return made


def _changed_min_isrs(image: Image, overlay: Overlay) -> Iterator[tuple[UUID, int]]:
    """Topics whose MinISR the overlay changes, with the new one."""
    topic = int(Resource.TOPIC)
    names = list(image.topic_ids) if CLUSTER_DEFAULTS in overlay else [name for kind, name in overlay if kind == topic]
    default = (_min_isr(image, "", {}), _min_isr(image, "", overlay))
    for name in names:
        resource = (topic, name)
        has_own = resource in overlay or resource in image.configs
        before, after = (_min_isr(image, name, {}), _min_isr(image, name, overlay)) if has_own else default
        if before != after:
            yield image.topic_ids[name], after


def _min_isr(image: Image, topic: str, overlay: Overlay) -> int:
    return int(image.config_with(topic, configs.MIN_ISR, overlay))  # type: ignore[arg-type]


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
