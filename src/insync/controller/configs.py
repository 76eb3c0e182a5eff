"""Changing configs, and what a changed MinISR does to the ELR (E8).

The ELR is derived again before the config changes, or in the same batch. A MinISR that the ISR now meets empties it. A
raised one adds no replica: a replica in neither ISR nor ELR may have missed records while the HWM moved. For leaders
that learn of a raised MinISR late, see `alter_partition.leader_knows_min_isr`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar
from uuid import UUID

from insync.controller.decision import Decision, Slices
from insync.controller.partition_change import PartitionChangeBuilder
from insync.controller.reassignment import OK, Outcome
from insync.controller.state import ControllerState
from insync.metadata import apache_broker_keys, configs, topic_names
from insync.metadata.configs import Resource
from insync.metadata.image import CLUSTER_DEFAULTS, ConfigResource, Image
from insync.sansio import Message
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_configs as replace_messages
from insync.wire.messages import create_topics
from insync.wire.messages import incremental_alter_configs as messages
from insync.wire.types import NO_DURATION

T = TypeVar("T")

SET, DELETE, APPEND, SUBTRACT = range(4)

Overlay = dict[ConfigResource, dict[str, str]]
_FROM_TOPIC, _FROM_CLUSTER, _BUILT_IN = 1, 3, 5
"""Kafka's numbers for the source of a value."""


ResourceChanges = list[tuple[ConfigResource, "tuple[messages.AlterableConfig, ...]"]]
Results = list[tuple[ConfigResource, Outcome]]


def alter(state: ControllerState, request: messages.IncrementalAlterConfigsRequest, now: int) -> Slices:
    """IncrementalAlterConfigs."""

    def list_changes() -> ResourceChanges:
        return [((int(entry.resource_type), entry.resource_name), entry.configs) for entry in request.resources]

    def make_response(results: Results) -> messages.IncrementalAlterConfigsResponse:
        responses = _list_results(messages.AlterConfigsResourceResponse, results)
        return messages.IncrementalAlterConfigsResponse(throttle_time=NO_DURATION, responses=responses)

    yield from _decide(state, list_changes, make_response, validate_only=request.validate_only)


def replace_all(state: ControllerState, request: replace_messages.AlterConfigsRequest, now: int) -> Slices:
    """AlterConfigs: configs that are named are set, all others go back to their defaults."""

    def list_changes() -> ResourceChanges:
        changes: ResourceChanges = []
        for entry in request.resources:
            resource = (int(entry.resource_type), entry.resource_name)
            named = {config.name: None for config in entry.configs}
            dropped = [name for name in state.image.configs.get(resource, {}) if name not in named]
            resource_changes = (
                *(messages.AlterableConfig(name=c.name, config_operation=SET, value=c.value) for c in entry.configs),
                *(messages.AlterableConfig(name=name, config_operation=DELETE, value=None) for name in dropped),
            )
            changes.append((resource, resource_changes))
        return changes

    def make_response(results: Results) -> replace_messages.AlterConfigsResponse:
        responses = _list_results(replace_messages.AlterConfigsResourceResponse, results)
        return replace_messages.AlterConfigsResponse(throttle_time=NO_DURATION, responses=responses)

    yield from _decide(state, list_changes, make_response, validate_only=request.validate_only)


def _list_results(entry_type: Callable[..., T], results: Results) -> tuple[T, ...]:
    """The entries of both APIs have the same fields."""
    return tuple(
        entry_type(error_code=error, error_message=message, resource_type=kind, resource_name=name)
        for (kind, name), (error, message) in results
    )


def _decide(
    state: ControllerState,
    list_changes: Callable[[], ResourceChanges],
    make_response: Callable[[Results], Message],
    *,
    validate_only: bool,
) -> Slices:
    """E8: ELRs that a lower MinISR makes obsolete are emptied before the leaders learn of it, in however many slices.
    Once a leader goes by the new value, its HWM advances without the members of the ELR."""
    while True:
        made, overlay, results = _make_records(state, list_changes())
        if validate_only:
            yield Decision(response=make_response(results))
            return
        elrs = _derive_elrs(state, overlay, reassigning=False)
        if len(elrs) < state.config.max_slice_records:
            # R2: a reassignment completes by the new MinISR, so its record comes after the config's.
            made += [*elrs, *_derive_elrs(state, overlay, reassigning=True)]
            yield Decision(records=tuple(made), response=make_response(results))
            return
        yield Decision(records=tuple(elrs))


def _make_records(
    state: ControllerState, changes: ResourceChanges
) -> tuple[list[records.MetadataRecord], Overlay, Results]:
    """The records for all resources, the configs that result from them, and a result per resource."""
    overlay: Overlay = {}
    made: list[records.MetadataRecord] = []
    results: Results = []
    times_named = Counter(resource for resource, _ in changes)
    for resource, resource_changes in changes:
        outcome = _check_resource(state, resource) if times_named[resource] == 1 else _REPEATED
        if outcome == OK:
            outcome = _change_resource(state, resource, resource_changes, overlay, made)
        results.append((resource, outcome))
    return made, overlay, results


_REPEATED: Outcome = (ErrorCode.invalid_request, "The resource is named more than once.")


def _check_resource(state: ControllerState, resource: ConfigResource) -> Outcome:
    kind, name = resource
    if kind == Resource.TOPIC and not name:
        return ErrorCode.invalid_request, "Default topic resources are not allowed."
    if kind == Resource.TOPIC:
        known = name in state.image.topic_ids
        return OK if known else (topic_names.error_if_absent(name), f"The topic '{name}' does not exist.")
    if kind != Resource.BROKER or not (name == "" or configs.is_id(name)):
        return ErrorCode.invalid_request, f"Unexpected resource {kind} {name}"
    if name and int(name) not in state.image.brokers:
        return ErrorCode.broker_id_not_registered, f"No such broker: {name}"
    return OK


def _change_resource(
    state: ControllerState,
    resource: ConfigResource,
    changes: tuple[messages.AlterableConfig, ...],
    overlay: Overlay,
    made: list[records.MetadataRecord],
) -> Outcome:
    before = state.image.configs.get(resource, {})
    after = dict(before)
    if len({change.name: None for change in changes}) != len(changes):
        return ErrorCode.invalid_request, "A config is named more than once."
    for change in changes:
        outcome = _change_config(resource, change, after)
        if outcome != OK:
            return outcome
    kind, resource_name = resource
    made += [
        records.ConfigRecord(
            resource_type=kind, resource_name=resource_name, name=change.name, value=after.get(change.name)
        )
        for change in changes
        if before.get(change.name) != after.get(change.name)
    ]
    overlay[resource] = after
    return OK


def _change_config(resource: ConfigResource, change: messages.AlterableConfig, values: dict[str, str]) -> Outcome:
    kind, operation = Resource(resource[0]), change.config_operation
    if operation == DELETE:
        values.pop(change.name, None)
        return OK
    if operation not in (SET, APPEND, SUBTRACT):
        return ErrorCode.invalid_request, f"Unknown operation {operation}"
    if change.value is None:
        return ErrorCode.invalid_request, f"Null value not supported for : {change.name}"
    if kind is Resource.BROKER and resource[1] and change.name in configs.CLUSTER_WIDE:
        return ErrorCode.invalid_config, f"{change.name} has to be the same on all brokers: set the cluster's default."
    value = change.value
    if operation != SET:
        if not _is_list(kind, change.name):
            word = "APPEND to" if operation == APPEND else "SUBTRACT from"
            return ErrorCode.invalid_config, f"Can't {word} key {change.name} because its type is not LIST."
        key = configs.KEYS[kind].get(change.name)
        value = _edit_list(values.get(change.name, key.default if key else ""), value, operation)
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
        problem = configs.find_problem(configs.KEYS[kind], name, value)
        error = ErrorCode.invalid_config if kind is Resource.TOPIC else ErrorCode.invalid_request
        return OK if problem is None else (error, problem)
    if apache_broker_keys.is_fixed(name):
        return ErrorCode.invalid_request, f"Cannot update these configs dynamically: Set({name})"
    problem = apache_broker_keys.find_type_problem(name, value)
    return OK if problem is None else (ErrorCode.invalid_request, problem)


def _edit_list(old: str, change: str, operation: int) -> str:
    items = dict.fromkeys(item for item in old.split(",") if item)
    for item in change.split(","):
        if operation == APPEND:
            items[item] = None
        else:
            items.pop(item, None)
    return ",".join(items)


# --- E8 --------------------------------------------------------------------------------------------------------------


def _derive_elrs(state: ControllerState, overlay: Overlay, *, reassigning: bool) -> list[records.PartitionChangeRecord]:
    """For the partitions that are being reassigned, or for one slice of the others."""
    made: list[records.PartitionChangeRecord] = []
    for topic_id, min_isr in _changed_min_isrs(state.image, overlay):
        for partition in state.image.partitions[topic_id].values():
            if len(made) >= state.config.max_slice_records and not reassigning:
                return made
            if partition.reassigning != reassigning:
                continue
            if not (partition.elr or partition.last_known_elr or reassigning):
                continue  # nothing depends on MinISR
            record = state.build(PartitionChangeBuilder(partition, min_isr, state.can_lead), "configs change")
            if record is not None:
                made.append(record)
    return made


def _changed_min_isrs(image: Image, overlay: Overlay) -> Iterator[tuple[UUID, int]]:
    """Topics whose MinISR the overlay changes, and the new value."""
    topic = int(Resource.TOPIC)
    names = list(image.topic_ids) if CLUSTER_DEFAULTS in overlay else [name for kind, name in overlay if kind == topic]
    default = (image.min_isr(""), image.min_isr("", overlay))
    for name in names:
        resource = (topic, name)
        has_own = resource in overlay or resource in image.configs
        before, after = (image.min_isr(name), image.min_isr(name, overlay)) if has_own else default
        if before != after:
            yield image.topic_ids[name], after


# --- describing ------------------------------------------------------------------------------------------------------


def describe_topic(image: Image, own: dict[str, str]) -> tuple[create_topics.CreatableTopicConfigs, ...]:
    """All configs of a new topic and their sources, for the response to CreateTopics."""
    shared = image.configs.get(CLUSTER_DEFAULTS, {})
    return tuple(_describe(key, own, shared) for _, key in sorted(configs.TOPIC_KEYS.items()))


def _describe(
    key: configs.ConfigKey, own: dict[str, str], shared: dict[str, str]
) -> create_topics.CreatableTopicConfigs:
    value, source = key.default, _BUILT_IN
    if key.name in own:
        value, source = own[key.name], _FROM_TOPIC
    elif key.synonym in shared:
        value, source = shared[key.synonym], _FROM_CLUSTER
    return create_topics.CreatableTopicConfigs(
        name=key.name, value=value, read_only=False, config_source=source, is_sensitive=False
    )
