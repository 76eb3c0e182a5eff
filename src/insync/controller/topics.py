"""Topics: create, delete, and add partitions. Each topic of a request succeeds or fails on its own.

A topic is created with partition 0 last: while that one is missing, the topic does not exist for clients. So a topic of
any size appears at once, however many slices its creation takes (`decision`). A controller that takes over removes the
topics without partition 0: their creation was never answered.

Replicas on fenced brokers are allowed, but somebody must be able to lead at once: the first ISR is the active replicas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from insync.controller import configs, placement
from insync.controller.context import Context
from insync.controller.decision import Decision, Slices
from insync.controller.reassignment import OK, Outcome, assignment_problem
from insync.metadata import topic_names
from insync.metadata.configs import Resource
from insync.metadata.image import Image
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_partitions as more_messages
from insync.wire.messages import create_topics as create_messages
from insync.wire.messages import delete_topics as delete_messages
from insync.wire.types import METADATA_TOPIC, NO_DURATION

MOST_NEW_PARTITIONS = 10_000
"""In one request, which becomes one batch of the metadata log; Kafka's limit too."""

_TOO_MANY = (ErrorCode.policy_violation, f"One request makes at most {MOST_NEW_PARTITIONS} partitions.")

Assignments = list[tuple[int, ...]]
Records = list[records.MetadataRecord]
Described = dict[tuple[tuple[str, str], ...], tuple[Any, ...]]
"""By a topic's own settings, all of its configs: most topics of a request share them, and there are thirty."""


# --- create ----------------------------------------------------------------------------------------------------------


def create(ctx: Context, request: Any, now: int) -> Slices:
    made: Records = []
    names = _Names(ctx.image)
    results = []
    planned = 0
    described: Described = {}
    for name, entries in _by_name(request.topics).items():
        outcome = _check_name(ctx, name, entries, names)
        assignments: Assignments = []
        if outcome == OK:
            start = len(ctx.image.topics) + len(names.new)
            outcome, assignments = _assignments(ctx, entries[0], MOST_NEW_PARTITIONS - planned, start)
        if outcome == OK:
            outcome = _check_configs(entries[0])
        if outcome != OK:
            results.append(_refused(name, outcome))
            continue
        planned += len(assignments)
        if request.validate_only:
            names.add(name)
            results.append(_created(ctx, entries[0], None, assignments, described))
            continue
        if made and len(made) + len(assignments) > ctx.slice_records:
            yield Decision(records=tuple(made))
            made, names = [], _Names(ctx.image)
            outcome = _check_name(ctx, name, entries, names)
        topic_id = UUID(int=ctx.rng.getrandbits(128), version=4)
        if outcome == OK:
            names.add(name)
            made += _head_records(topic_id, entries[0])
            for index in (*range(1, len(assignments)), 0):
                if len(made) >= ctx.slice_records:
                    yield Decision(records=tuple(made))
                    made, names = [], _Names(ctx.image)
                outcome = _creatable(ctx, topic_id, assignments[index], name in names.new)
                if outcome != OK:
                    break
                made.append(_partition_record(ctx, topic_id, index, assignments[index]))
        if outcome == OK:
            results.append(_created(ctx, entries[0], topic_id, assignments, described))
        else:
            results.append(_refused(name, outcome))
            if topic_id in ctx.image.topics:
                made = [records.RemoveTopicRecord(topic_id=topic_id)]
    response = create_messages.CreateTopicsResponse(throttle_time=NO_DURATION, topics=tuple(results))
    yield Decision(records=tuple(made), response=response)


def _creatable(ctx: Context, topic_id: UUID, replicas: tuple[int, ...], in_this_slice: bool) -> Outcome:
    """What may have changed since the first slice: the topic was deleted, or its brokers were fenced."""
    if not _active(ctx, replicas):
        return ErrorCode.invalid_replica_assignment, "All brokers of a partition are fenced or shutting down."
    if not in_this_slice and topic_id not in ctx.image.topics:
        return ErrorCode.unknown_topic_id, "The topic was deleted before all of its partitions were created."
    return OK


class _Names:
    """Names that are taken: by topics of the image, and by those that are decided and not in it yet."""

    __slots__ = ("_by_normal", "_image", "new")

    def __init__(self, image: Image) -> None:
        self._image = image
        self._by_normal: dict[str, str] | None = None
        self.new: dict[str, None] = {}

    def add(self, name: str) -> None:
        self.new[name] = None
        if self._by_normal is not None:
            self._by_normal[_normal(name)] = name

    def same_in_metrics(self, name: str) -> str:
        """A topic whose name differs in dots and underscores alone; the name itself if there is none."""
        if "." not in name and "_" not in name:
            return name
        if self._by_normal is None:
            self._by_normal = {_normal(other): other for other in (*self._image.topic_ids, *self.new)}
        return self._by_normal.get(_normal(name), name)


def incomplete(image: Image) -> Decision | None:
    """Topics whose creation an earlier controller did not finish."""
    made = tuple(records.RemoveTopicRecord(topic_id=topic_id) for topic_id in image.incomplete_topics)
    return Decision(records=made) if made else None


def _by_name(entries: Iterable[Any]) -> dict[str, list[Any]]:
    named: dict[str, list[Any]] = {}
    for entry in entries:
        named.setdefault(entry.name, []).append(entry)
    return named


def _check_name(ctx: Context, name: str, entries: list[Any], names: _Names) -> Outcome:
    if len(entries) > 1:
        return ErrorCode.invalid_request, "The topic is named more than once."
    if name == METADATA_TOPIC:
        return ErrorCode.invalid_request, f"{METADATA_TOPIC} belongs to the controllers."
    if not topic_names.is_legal(name):
        return ErrorCode.invalid_topic_exception, f"Topic name '{name}' is invalid: {topic_names.RULE}"
    if name in ctx.image.topic_ids:
        return ErrorCode.topic_already_exists, f"Topic '{name}' already exists."
    taken = names.same_in_metrics(name)
    if taken != name:
        return ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with '{taken}' in metric names."
    return OK


def _normal(name: str) -> str:
    """Metric names cannot tell a dot from an underscore."""
    return name.replace(".", "_")


def _check_configs(entry: Any) -> Outcome:
    for config in entry.configs:
        problem = configs.problem(Resource.TOPIC, config.name, config.value)
        if problem is not None:
            return ErrorCode.invalid_config, problem
    return OK


def _assignments(ctx: Context, entry: Any, room: int, start: int) -> tuple[Outcome, Assignments]:
    if entry.assignments:
        return _manual(ctx, entry) if len(entry.assignments) <= room else (_TOO_MANY, [])
    count = ctx.config.default_partitions if entry.num_partitions == -1 else entry.num_partitions
    factor = ctx.config.default_replication_factor if entry.replication_factor == -1 else entry.replication_factor
    if factor <= 0:
        return (ErrorCode.invalid_replication_factor, "The replication factor must be larger than 0."), []
    if count <= 0:
        return (ErrorCode.invalid_partitions, "The number of partitions must be larger than 0."), []
    if count > room:
        return _TOO_MANY, []
    placed = placement.place(ctx.image, count, factor, start, ctx.leaving)
    return _placed(placed, factor)


def _placed(placed: Assignments | None, factor: int) -> tuple[Outcome, Assignments]:
    if placed is None:
        return (ErrorCode.invalid_replication_factor, f"Too few brokers to hold {factor} replicas."), []
    return OK, placed


def _manual(ctx: Context, entry: Any) -> tuple[Outcome, Assignments]:
    if entry.num_partitions != -1 or entry.replication_factor != -1:
        return (ErrorCode.invalid_request, "Give either an assignment, or a count and a replication factor."), []
    by_index = {one.partition_index: tuple(one.broker_ids) for one in entry.assignments}
    if sorted(by_index) != list(range(len(entry.assignments))):
        return (ErrorCode.invalid_replica_assignment, "Partitions must be numbered from 0 without gaps."), []
    assignments = [by_index[index] for index in sorted(by_index)]
    return _checked(ctx, assignments, len(assignments[0])), assignments


def _checked(ctx: Context, assignments: Assignments, factor: int) -> Outcome:
    for replicas in assignments:
        problem = assignment_problem(ctx.image, replicas)
        if problem is None and len(replicas) != factor:
            problem = "All partitions of a topic start with the same number of replicas."
        if problem is None and not _active(ctx, replicas):
            problem = "All brokers of a partition are fenced or shutting down."
        if problem is not None:
            return ErrorCode.invalid_replica_assignment, problem
    return OK


def _active(ctx: Context, replicas: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if ctx.may_lead(replica))


def _head_records(topic_id: UUID, entry: Any) -> Records:
    made: Records = [records.TopicRecord(name=entry.name, topic_id=topic_id)]
    for config in entry.configs:
        made.append(
            records.ConfigRecord(
                resource_type=int(Resource.TOPIC), resource_name=entry.name, name=config.name, value=config.value
            )
        )
    return made


def _partition_record(ctx: Context, topic_id: UUID, index: int, replicas: tuple[int, ...]) -> records.PartitionRecord:
    isr = _active(ctx, replicas)
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


def _created(ctx: Context, entry: Any, topic_id: UUID | None, assignments: Assignments, described: Described) -> Any:
    own = {config.name: config.value for config in entry.configs}
    settings = tuple(own.items())
    if settings not in described:
        described[settings] = configs.described(ctx.image, own)
    return create_messages.CreatableTopicResult(
        name=entry.name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(assignments),
        replication_factor=len(assignments[0]),
        configs=described[settings],
    )


def _refused(name: str, outcome: Outcome) -> Any:
    return create_messages.CreatableTopicResult(
        name=name, topic_id=None, error_code=outcome[0], error_message=outcome[1], configs=()
    )


# --- more partitions -------------------------------------------------------------------------------------------------


def add_partitions(ctx: Context, request: Any, now: int) -> Slices:
    """Unlike a new topic, one that grows is seen with some of its new partitions: it has changed size in any case. A
    request that is repeated after a change of the controller adds those that are missing."""
    made: Records = []
    results = []
    planned = 0
    for name, entries in _by_name(request.topics).items():
        outcome, new = _additional(ctx, name, entries, MOST_NEW_PARTITIONS - planned)
        planned += len(new)
        if outcome == OK and not request.validate_only:
            topic_id = ctx.image.topic_ids[name]
            for index, replicas in enumerate(new, len(ctx.image.partitions[topic_id])):
                if len(made) >= ctx.slice_records:
                    yield Decision(records=tuple(made))
                    made = []
                    ctx.cause = "partitions are added"
                outcome = _addable(ctx, topic_id, index, replicas, made)
                if outcome != OK:
                    break
                made.append(_partition_record(ctx, topic_id, index, replicas))
        results.append(
            more_messages.CreatePartitionsTopicResult(name=name, error_code=outcome[0], error_message=outcome[1])
        )
    response = more_messages.CreatePartitionsResponse(throttle_time=NO_DURATION, results=tuple(results))
    yield Decision(records=tuple(made), response=response)


def _addable(ctx: Context, topic_id: UUID, index: int, replicas: tuple[int, ...], made: Records) -> Outcome:
    """What may have changed since the first slice."""
    present = ctx.image.partitions.get(topic_id)
    if present is None or index in present:
        return ErrorCode.invalid_request, "The topic was changed by another request meanwhile."
    if not _active(ctx, replicas):
        return ErrorCode.invalid_replica_assignment, "All brokers of a partition are fenced or shutting down."
    return OK


def _additional(ctx: Context, name: str, entries: list[Any], room: int) -> tuple[Outcome, Assignments]:
    topic_id = ctx.image.complete_topic(name)
    if len(entries) > 1:
        return (ErrorCode.invalid_request, "The topic is named more than once."), []
    if topic_id is None:
        return (ErrorCode.unknown_topic_or_partition, None), []
    present = ctx.image.partitions[topic_id]
    extra = entries[0].count - len(present)
    if extra <= 0:
        return (ErrorCode.invalid_partitions, f"The topic has {len(present)} partitions already."), []
    if extra > room:
        return _TOO_MANY, []
    factor = len(present[0].replicas)
    if entries[0].assignments is None:
        start = len(ctx.image.topics) + len(present)
        return _placed(placement.place(ctx.image, extra, factor, start, ctx.leaving), factor)
    assignments = [tuple(one.broker_ids) for one in entries[0].assignments]
    if len(assignments) != extra:
        return (ErrorCode.invalid_replica_assignment, f"{extra} assignments are needed."), []
    return _checked(ctx, assignments, factor), assignments


# --- delete ----------------------------------------------------------------------------------------------------------


def delete(ctx: Context, request: Any, now: int) -> Decision:
    made: Records = []
    seen: dict[UUID, None] = {}
    results = []
    for entry, twice in _once_each(request.topics):
        topic_id = entry.topic_id if entry.name is None else ctx.image.topic_ids.get(entry.name)
        name = ctx.image.topics.get(topic_id) if topic_id is not None else entry.name
        error = ErrorCode.invalid_request if twice else _deletable(ctx, entry, topic_id, seen)
        if error is ErrorCode.none and topic_id is not None:
            seen[topic_id] = None
            made.append(records.RemoveTopicRecord(topic_id=topic_id))
        results.append(delete_messages.DeletableTopicResult(name=name, topic_id=topic_id, error_code=error))
    response = delete_messages.DeleteTopicsResponse(throttle_time=NO_DURATION, responses=tuple(results))
    return Decision(records=tuple(made), response=response)


def _once_each(entries: Any) -> list[tuple[Any, bool]]:
    """Every name or id once, and whether the request has it more than once: then it is refused, as in Kafka."""
    counts: dict[tuple[str | None, UUID | None], int] = {}
    for entry in entries:
        key = (entry.name, entry.topic_id)
        counts[key] = counts.get(key, 0) + 1
    first = {(entry.name, entry.topic_id): entry for entry in reversed(entries)}
    return [(first[key], count > 1) for key, count in counts.items()]


def _deletable(ctx: Context, entry: Any, topic_id: UUID | None, seen: dict[UUID, None]) -> ErrorCode:
    if (entry.name is None) == (entry.topic_id is None) or topic_id in seen:
        return ErrorCode.invalid_request
    if topic_id not in ctx.image.topics:
        return ErrorCode.unknown_topic_id if entry.name is None else ErrorCode.unknown_topic_or_partition
    return ErrorCode.none
