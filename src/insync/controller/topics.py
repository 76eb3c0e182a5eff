"""Topics: create, delete, and add partitions. Each topic of a request succeeds or fails on its own.

A topic is created with partition 0 last: while that is missing, the topic does not exist for clients. So a topic of any
size appears at once, however many slices its creation takes (`decision`). A controller that takes over removes topics
without partition 0: their creation was never answered.

Replicas on fenced brokers are allowed, but one replica must be able to lead at once: the first ISR is the active
replicas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from insync.controller import configs, placement
from insync.controller.decision import Charge, Decision, Slices, charge_nothing
from insync.controller.reassignment import OK, Outcome, find_assignment_problem
from insync.controller.state import ControllerState
from insync.metadata import topic_names
from insync.metadata.configs import TOPIC_KEYS, Resource, find_problem
from insync.metadata.image import Image
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_partitions as more_messages
from insync.wire.messages import create_topics as create_messages
from insync.wire.messages import delete_topics as delete_messages
from insync.wire.types import METADATA_TOPIC, NO_DURATION

MAX_NEW_PARTITIONS = 10_000
"""In one request; Kafka has the same limit."""

_TOO_MANY = (ErrorCode.policy_violation, f"One request may create at most {MAX_NEW_PARTITIONS} partitions.")
_THROTTLED = (ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")
_NO_ACTIVE_REPLICA = (
    ErrorCode.invalid_replica_assignment,
    "All brokers of a partition are fenced or shutting down.",
)

Entry = TypeVar("Entry", "create_messages.CreatableTopic", "more_messages.CreatePartitionsTopic")
Assignments = list[tuple[int, ...]]
Records = list[records.MetadataRecord]
Described = dict[tuple[tuple[str, str], ...], "tuple[create_messages.CreatableTopicConfigs, ...]"]
"""All configs of a topic by its own settings: most topics of a request share them, and there are thirty."""


# --- create ----------------------------------------------------------------------------------------------------------


def create(
    state: ControllerState, request: create_messages.CreateTopicsRequest, now: int, charge: Charge = charge_nothing
) -> Slices:
    made: Records = []
    names = _TopicNames(state.image)
    results = []
    planned = 0
    described: Described = {}
    for name, entries in _group_by_name(request.topics).items():
        outcome = _check_new_name(state, name, entries, names)
        assignments: Assignments = []
        if outcome == OK:
            start = len(state.image.topics) + len(names.new)
            outcome, assignments = _assign(state, entries[0], MAX_NEW_PARTITIONS - planned, start)
        if outcome == OK:
            outcome = _check_configs(entries[0])
        if outcome == OK and not request.validate_only and not charge(len(assignments)):
            outcome = _THROTTLED
        if outcome != OK:
            results.append(_refused(name, outcome))
            continue
        planned += len(assignments)
        if request.validate_only:
            names.add(name)
            results.append(_created(state, entries[0], None, assignments, described))
            continue
        if made and len(made) + len(assignments) > state.config.max_slice_records:
            yield Decision(records=tuple(made))
            made, names = [], _TopicNames(state.image)
            outcome = _check_new_name(state, name, entries, names)
            if outcome == OK and not all(_active_replicas(state, replicas) for replicas in assignments):
                outcome = _NO_ACTIVE_REPLICA
        topic_id = UUID(int=state.rng.getrandbits(128), version=4)
        if outcome == OK:
            names.add(name)
            made += _topic_records(topic_id, entries[0])
            for index in (*range(1, len(assignments)), 0):
                if len(made) >= state.config.max_slice_records:
                    yield Decision(records=tuple(made))
                    made, names = [], _TopicNames(state.image)
                outcome = _check_still_creatable(state, topic_id, assignments[index], name in names.new)
                if outcome != OK:
                    break
                made.append(_partition_record(state, topic_id, index, assignments[index]))
        if outcome == OK:
            results.append(_created(state, entries[0], topic_id, assignments, described))
        else:
            results.append(_refused(name, outcome))
            if topic_id in state.image.topics:
                made = [records.RemoveTopicRecord(topic_id=topic_id)]
    response = create_messages.CreateTopicsResponse(throttle_time=NO_DURATION, topics=tuple(results))
    yield Decision(records=tuple(made), response=response)


def _check_still_creatable(
    state: ControllerState, topic_id: UUID, replicas: tuple[int, ...], in_this_slice: bool
) -> Outcome:
    """Since the first slice the topic may have been deleted, or its brokers fenced."""
    if not _active_replicas(state, replicas):
        return _NO_ACTIVE_REPLICA
    if not in_this_slice and topic_id not in state.image.topics:
        return ErrorCode.unknown_topic_id, "The topic was deleted before all of its partitions were created."
    return OK


class _TopicNames:
    """Names of existing topics, and of topics that are decided but not in the image yet."""

    __slots__ = ("_by_metric_name", "_image", "new")

    def __init__(self, image: Image) -> None:
        self._image = image
        self._by_metric_name: dict[str, str] | None = None
        self.new: dict[str, None] = {}

    def add(self, name: str) -> None:
        self.new[name] = None
        if self._by_metric_name is not None:
            self._by_metric_name[_metric_name(name)] = name

    def find_collision(self, name: str) -> str:
        """A topic whose name differs only in dots and underscores; the name itself if there is none."""
        if "." not in name and "_" not in name:
            return name
        if self._by_metric_name is None:
            self._by_metric_name = {_metric_name(other): other for other in (*self._image.topic_ids, *self.new)}
        return self._by_metric_name.get(_metric_name(name), name)


def remove_incomplete(image: Image) -> Decision | None:
    """Remove topics whose creation an earlier controller did not finish."""
    made = tuple(records.RemoveTopicRecord(topic_id=topic_id) for topic_id in image.incomplete_topics)
    return Decision(records=made) if made else None


def _group_by_name(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.name, []).append(entry)
    return groups


def _check_new_name(
    state: ControllerState, name: str, entries: list[create_messages.CreatableTopic], names: _TopicNames
) -> Outcome:
    if len(entries) > 1:
        return ErrorCode.invalid_request, "The topic is named more than once."
    if name == METADATA_TOPIC:
        return ErrorCode.invalid_request, f"Topic '{METADATA_TOPIC}' is reserved for the controllers."
    if not topic_names.is_valid(name):
        return ErrorCode.invalid_topic_exception, f"Topic name '{name}' is invalid: {topic_names.RULE}"
    if name in state.image.topic_ids:
        return ErrorCode.topic_already_exists, f"Topic '{name}' already exists."
    taken = names.find_collision(name)
    if taken != name:
        return ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with '{taken}' in metric names."
    return OK


def _metric_name(name: str) -> str:
    """Metric names do not distinguish dots from underscores."""
    return name.replace(".", "_")


def _check_configs(entry: create_messages.CreatableTopic) -> Outcome:
    for config in entry.configs:
        problem = find_problem(TOPIC_KEYS, config.name, config.value)
        if problem is not None:
            return ErrorCode.invalid_config, problem
    return OK


def _assign(
    state: ControllerState, entry: create_messages.CreatableTopic, room: int, start: int
) -> tuple[Outcome, Assignments]:
    if entry.assignments:
        return _check_manual_assignment(state, entry) if len(entry.assignments) <= room else (_TOO_MANY, [])
    count = state.config.default_partitions if entry.num_partitions == -1 else entry.num_partitions
    factor = state.config.default_replication_factor if entry.replication_factor == -1 else entry.replication_factor
    if factor <= 0:
        return (ErrorCode.invalid_replication_factor, "The replication factor must be larger than 0."), []
    if count <= 0:
        return (ErrorCode.invalid_partitions, "The number of partitions must be larger than 0."), []
    if count > room:
        return _TOO_MANY, []
    placed = placement.place_replicas(state.image, count, factor, start, state.leaving)
    return _check_placement(placed, factor)


def _check_placement(placed: Assignments | None, factor: int) -> tuple[Outcome, Assignments]:
    if placed is None:
        return (ErrorCode.invalid_replication_factor, f"Too few brokers to hold {factor} replicas."), []
    return OK, placed


def _check_manual_assignment(
    state: ControllerState, entry: create_messages.CreatableTopic
) -> tuple[Outcome, Assignments]:
    if entry.num_partitions != -1 or entry.replication_factor != -1:
        return (ErrorCode.invalid_request, "Give either an assignment, or a count and a replication factor."), []
    by_index = {a.partition_index: tuple(a.broker_ids) for a in entry.assignments}
    if sorted(by_index) != list(range(len(entry.assignments))):
        return (ErrorCode.invalid_replica_assignment, "Partitions must be numbered from 0 without gaps."), []
    assignments = [by_index[index] for index in sorted(by_index)]
    return _check_assignments(state, assignments, len(assignments[0])), assignments


def _check_assignments(state: ControllerState, assignments: Assignments, factor: int) -> Outcome:
    for replicas in assignments:
        problem = find_assignment_problem(state.image, replicas)
        if problem is None and len(replicas) != factor:
            problem = "All partitions of a topic start with the same number of replicas."
        if problem is None and not _active_replicas(state, replicas):
            problem = "All brokers of a partition are fenced or shutting down."
        if problem is not None:
            return ErrorCode.invalid_replica_assignment, problem
    return OK


def _active_replicas(state: ControllerState, replicas: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if state.can_lead(replica))


def _topic_records(topic_id: UUID, entry: create_messages.CreatableTopic) -> Records:
    made: Records = [records.TopicRecord(name=entry.name, topic_id=topic_id)]
    for config in entry.configs:
        made.append(
            records.ConfigRecord(
                resource_type=int(Resource.TOPIC), resource_name=entry.name, name=config.name, value=config.value
            )
        )
    return made


def _partition_record(
    state: ControllerState, topic_id: UUID, index: int, replicas: tuple[int, ...]
) -> records.PartitionRecord:
    isr = _active_replicas(state, replicas)
    return records.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=(records.UNASSIGNED_DIRECTORY,) * len(replicas),
    )


def _created(
    state: ControllerState,
    entry: create_messages.CreatableTopic,
    topic_id: UUID | None,
    assignments: Assignments,
    described: Described,
) -> create_messages.CreatableTopicResult:
    own = {config.name: config.value or "" for config in entry.configs}
    settings = tuple(own.items())
    if settings not in described:
        described[settings] = configs.describe_topic(state.image, own)
    return create_messages.CreatableTopicResult(
        name=entry.name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(assignments),
        replication_factor=len(assignments[0]),
        configs=described[settings],
    )


def _refused(name: str, outcome: Outcome) -> create_messages.CreatableTopicResult:
    return create_messages.CreatableTopicResult(
        name=name, topic_id=None, error_code=outcome[0], error_message=outcome[1], configs=()
    )


# --- add partitions -------------------------------------------------------------------------------------------------


def add_partitions(
    state: ControllerState, request: more_messages.CreatePartitionsRequest, now: int, charge: Charge = charge_nothing
) -> Slices:
    """Unlike a new topic, a growing one may be seen with only some of its new partitions. A request that is repeated
    after a change of the controller adds those that are missing."""
    made: Records = []
    results = []
    planned = 0
    for name, entries in _group_by_name(request.topics).items():
        outcome, new = _assign_additional(state, name, entries, MAX_NEW_PARTITIONS - planned)
        if outcome == OK and not request.validate_only and not charge(len(new)):
            outcome, new = _THROTTLED, []
        planned += len(new)
        if outcome == OK and not request.validate_only:
            topic_id = state.image.topic_ids[name]
            for index, replicas in enumerate(new, len(state.image.partitions[topic_id])):
                if len(made) >= state.config.max_slice_records:
                    yield Decision(records=tuple(made))
                    made = []
                outcome = _check_still_addable(state, topic_id, index, replicas)
                if outcome != OK:
                    break
                made.append(_partition_record(state, topic_id, index, replicas))
        results.append(
            more_messages.CreatePartitionsTopicResult(name=name, error_code=outcome[0], error_message=outcome[1])
        )
    response = more_messages.CreatePartitionsResponse(throttle_time=NO_DURATION, results=tuple(results))
    yield Decision(records=tuple(made), response=response)


def _check_still_addable(state: ControllerState, topic_id: UUID, index: int, replicas: tuple[int, ...]) -> Outcome:
    """Since the first slice the topic may have been changed, or its brokers fenced."""
    present = state.image.partitions.get(topic_id)
    if present is None or index in present:
        return ErrorCode.invalid_request, "Another request has changed the topic in the meantime."
    if not _active_replicas(state, replicas):
        return _NO_ACTIVE_REPLICA
    return OK


def _assign_additional(
    state: ControllerState, name: str, entries: list[more_messages.CreatePartitionsTopic], room: int
) -> tuple[Outcome, Assignments]:
    topic_id = state.image.complete_topic(name)
    if len(entries) > 1:
        return (ErrorCode.invalid_request, "The topic is named more than once."), []
    if topic_id is None:
        return (ErrorCode.unknown_topic_or_partition, None), []
    present = state.image.partitions[topic_id]
    extra = entries[0].count - len(present)
    if extra <= 0:
        return (ErrorCode.invalid_partitions, f"The topic has {len(present)} partitions already."), []
    if extra > room:
        return _TOO_MANY, []
    factor = len(present[0].replicas)
    if entries[0].assignments is None:
        start = len(state.image.topics) + len(present)
        return _check_placement(placement.place_replicas(state.image, extra, factor, start, state.leaving), factor)
    assignments = [tuple(assignment.broker_ids) for assignment in entries[0].assignments]
    if len(assignments) != extra:
        return (ErrorCode.invalid_replica_assignment, f"{extra} assignments are needed."), []
    return _check_assignments(state, assignments, factor), assignments


# --- delete ----------------------------------------------------------------------------------------------------------


def delete(
    state: ControllerState, request: delete_messages.DeleteTopicsRequest, now: int, charge: Charge = charge_nothing
) -> Decision:
    made: Records = []
    seen: dict[UUID, None] = {}
    results = []
    for entry, is_repeated in _deduplicate(request.topics):
        topic_id = entry.topic_id if entry.name is None else state.image.topic_ids.get(entry.name)
        name = state.image.topics.get(topic_id) if topic_id is not None else entry.name
        error = ErrorCode.invalid_request if is_repeated else _find_delete_error(state, entry, topic_id, seen)
        if error is ErrorCode.none and topic_id is not None and not charge(len(state.image.partitions[topic_id])):
            error = ErrorCode.throttling_quota_exceeded
        if error is ErrorCode.none and topic_id is not None:
            seen[topic_id] = None
            made.append(records.RemoveTopicRecord(topic_id=topic_id))
        results.append(delete_messages.DeletableTopicResult(name=name, topic_id=topic_id, error_code=error))
    response = delete_messages.DeleteTopicsResponse(throttle_time=NO_DURATION, responses=tuple(results))
    return Decision(records=tuple(made), response=response)


def _deduplicate(
    entries: tuple[delete_messages.DeleteTopicState, ...],
) -> list[tuple[delete_messages.DeleteTopicState, bool]]:
    """Every name or id once, and whether it is repeated: then it is refused, as in Kafka."""
    counts: dict[tuple[str | None, UUID | None], int] = {}
    for entry in entries:
        key = (entry.name, entry.topic_id)
        counts[key] = counts.get(key, 0) + 1
    first = {(entry.name, entry.topic_id): entry for entry in reversed(entries)}
    return [(first[key], count > 1) for key, count in counts.items()]


def _find_delete_error(
    state: ControllerState, entry: delete_messages.DeleteTopicState, topic_id: UUID | None, seen: dict[UUID, None]
) -> ErrorCode:
    if (entry.name is None) == (entry.topic_id is None) or topic_id in seen:
        return ErrorCode.invalid_request
    if topic_id not in state.image.topics:
        return ErrorCode.unknown_topic_id if entry.name is None else ErrorCode.unknown_topic_or_partition
    return ErrorCode.none
