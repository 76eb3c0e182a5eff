"""What each API needs, on a node with an authorizer: allowed, refused, and allowed in part (A1, A3)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any
from uuid import UUID

import pytest

from insync.client.request_builder import build_request
from insync.node.config import AuthorizerConfig
from insync.node.handlers import HANDLERS
from insync.sansio import Client, HangUp
from insync.security.acl import SUPPORTED_OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType
from insync.security.authorizer import Authorizer
from insync.wire import codec, operations
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_topics, delete_topics, describe_topic_partitions, join_group, metadata
from insync.wire.types import ms
from tests.authorization_cases import (
    ABSENT,
    CASES,
    CLUSTER_ERROR,
    HIDDEN,
    ORDERS,
    OTHERS,
    SECRET,
    TOPIC_ERROR,
    WORKERS,
    Case,
    Right,
    on_cluster,
    on_topic,
)
from tests.node.node_harness import Net, config, create_request, metadata_request, produce_request

ADMIN = Client(id="admin", host="/10.0.0.1", principal="User:admin", listener="PLAINTEXT", on_node_listener=False)
ALICE = replace(ADMIN, id="alice", principal="User:alice")
REFUSALS = {CLUSTER_ERROR, TOPIC_ERROR, "group_authorization_failed", "transactional_id_authorization_failed"}
LABELS = ("name", "topic", "group_id", "key", "resource_name", "transactional_id", "topic_id")
"""What names the resource of a line in a response."""


class World:
    """One node that is broker and controller; topics, groups and offsets are there."""

    def __init__(self) -> None:
        self.net = Net(config(1, authorizer=AuthorizerConfig(super_users=("User:admin",)))).up()
        self.node = self.net.nodes[1]
        for name in (ORDERS, SECRET):
            self.net.create(name)
        self.ids = dict(self.node.image.topic_ids)
        for group in (WORKERS, OTHERS):
            self._join(group)

    def _join(self, group: str) -> None:
        find = build_request(codec.request_type(10, 6), {"key_type": 0, "coordinator_keys": (group,)})
        self.net.answered(1, find)
        self.net.advance(10_000)
        join = join_group.JoinGroupRequest(
            group_id=group,
            session_timeout=ms(1_800_000),
            rebalance_timeout=ms(10_000),
            member_id="",
            protocol_type="consumer",
            protocols=(join_group.JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        self.net.ask(1, join)
        self.net.advance(10_000)
        commit = build_request(
            codec.request_type(8, 9),
            {
                "group_id": group,
                "member_id": "",
                "topics": [
                    {
                        "name": name,
                        "partitions": [
                            {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""},
                        ],
                    }
                    for name in (ORDERS, SECRET)
                ],
            },
        )
        self.net.answered(1, commit)

    def grant(self, *rights: Right, permission: Permission = Permission.ALLOW) -> None:
        authorizer = self.node.authorizer
        assert authorizer is not None
        authorizer.clear()
        for operation, resource_type, name in rights:
            authorizer.add(
                Acl(
                    resource_type=resource_type,
                    resource_name=name,
                    principal=ALICE.principal,
                    operation=operation,
                    permission=permission,
                )
            )

    def request(self, case: Case) -> Any:
        api = APIS[case.api]
        if case.api == "get_replica_log_info":
            from insync.wire.messages import get_replica_log_info as messages

            return build_request(messages.GetReplicaLogInfoRequest, case.body(self.ids))
        return build_request(codec.request_type(api.key, api.pinned), case.body(self.ids))

    def ask(self, request: Any, client: Client = ALICE) -> Any:
        """The response, or the `HangUp` in its place."""
        token = self.net.ask(1, request, client)
        for _ in range(50):
            if token in self.net.answers or token in self.net.hang_ups:
                break
            self.net.advance(500)
        return self.net.answers[token] if token in self.net.answers else self.net.hang_ups[token]


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def lines(value: Any, label: str = "") -> Iterator[tuple[str, str]]:
    """(resource, error) of every line of a response that has an error code."""
    if isinstance(value, tuple):
        for item in value:
            yield from lines(item, label)
    elif is_dataclass(value):
        names = [getattr(value, name) for name in LABELS if getattr(value, name, None) is not None]
        label = str(names[0]) if names else label
        if hasattr(value, "error_code"):
            yield label, value.error_code.name
        for field in fields(value):
            yield from lines(getattr(value, field.name), label)


def errors(response: Any) -> dict[str, set[str]]:
    by_label: dict[str, set[str]] = {}
    for label, error in lines(response):
        by_label.setdefault(label, set()).add(error)
    return by_label


def all_errors(response: Any) -> set[str]:
    return {error for _, error in lines(response)}


def closed_names(case: Case, world: World) -> set[str]:
    names = {name for _, _, name in case.closed}
    return names | {str(world.ids[name]) for name in names if name in world.ids}


def test_every_api_has_rights_and_a_case() -> None:
    """A1: an API that nobody has thought about is not served."""
    assert all(HANDLERS[api.key].rights.needs for api in APIS.values())
    assert {case.api for case in CASES} == set(APIS)


SERVED = [case for case in CASES if not case.of_transactions]


@pytest.mark.parametrize("case", SERVED, ids=lambda case: case.name)
def test_with_all_rights_nothing_is_refused(world: World, case: Case) -> None:
    """A3."""
    world.grant(*case.open, *case.closed)
    response = world.ask(world.request(case))
    assert not isinstance(response, HangUp)
    assert not all_errors(response) & REFUSALS


@pytest.mark.parametrize("case", [case for case in CASES if case.open], ids=lambda case: case.name)
def test_without_rights_everything_is_refused_or_left_out(world: World, case: Case) -> None:
    """A3."""
    world.grant()
    response = world.ask(world.request(case))
    if case.refused:
        assert all_errors(response) - {"none"} <= REFUSALS
        assert all_errors(response) & REFUSALS
    topics = [name for _, _, name in (*case.open, *case.closed) if name in world.ids]
    if not case.refused:
        assert not [name for name in topics if name in repr(response) or str(world.ids[name]) in repr(response)]


@pytest.mark.parametrize("case", [case for case in SERVED if case.closed], ids=lambda case: case.name)
def test_with_some_rights_the_rest_is_refused_or_left_out(world: World, case: Case) -> None:
    """A3: the entries that are allowed are served as if they came alone."""
    world.grant(*case.open)
    response = world.ask(world.request(case))
    by_name = errors(response)
    closed = closed_names(case, world)
    if case.refused:
        assert {error for name in closed for error in by_name.get(name, ())} == {case.refused}
        assert not {error for name in set(by_name) - closed for error in by_name[name]} & REFUSALS
    else:
        assert not all_errors(response) & REFUSALS
        assert not [name for name in closed if name in repr(response)]
    world.grant(*case.open, *case.closed)
    complete = errors(world.ask(world.request(case)))
    assert {name: by_name[name] for name in by_name if name not in closed} == {
        name: complete[name] for name in complete if name not in closed
    }


@pytest.mark.parametrize("case", [case for case in SERVED if case.open], ids=lambda case: case.name)
def test_a_super_user_needs_no_acl(world: World, case: Case) -> None:
    """A2."""
    world.grant()
    assert not all_errors(world.ask(world.request(case), ADMIN)) & REFUSALS


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.refused and len(case.open) == 1], ids=lambda case: case.name
)
def test_a_denial_wins_over_a_permission_for_everything(world: World, case: Case) -> None:
    """A2."""
    (operation, kind, name), *_ = case.open
    world.grant((Operation.ALL, kind, "*"), (operation, kind, name), permission=Permission.ALLOW)
    assert world.node.authorizer is not None
    world.node.authorizer.add(
        Acl(
            resource_type=kind,
            resource_name=name,
            principal="User:*",
            operation=operation,
            permission=Permission.DENY,
        )
    )
    if case.name == "init_producer_id for a writer of any topic":
        assert not all_errors(world.ask(world.request(case))) & REFUSALS  # other topics may be written
    elif case.name == "delete_topics by name":  # of topics that do not exist, and may be described
        assert all_errors(world.ask(world.request(case))) == {"unknown_topic_or_partition"}
    else:
        assert all_errors(world.ask(world.request(case))) & {case.refused}


# --- what the table does not show -------------------------------------------------------------------------------------


def test_acks_0_is_answered_by_a_hang_up(world: World) -> None:
    """P1, A3: there is no response that could carry the error."""
    world.grant(*on_topic(Operation.WRITE, ORDERS))
    allowed, refused = (world.net.partition(name) for name in (ORDERS, SECRET))
    end, refused_end = world.net.log(ORDERS).leo, world.net.log(SECRET).leo
    both = replace(
        produce_request(allowed, acks=0),
        topic_data=(
            *produce_request(allowed).topic_data,
            *produce_request(refused).topic_data,
        ),
    )
    assert isinstance(world.ask(both), HangUp)
    assert world.net.log(ORDERS).leo == end + 1
    assert isinstance(world.ask(produce_request(refused, acks=0)), HangUp)
    assert world.net.log(SECRET).leo == refused_end
    token = world.net.ask(1, produce_request(allowed, acks=0), ALICE)
    assert world.net.answers[token] is None


def test_refused_records_are_not_stored(world: World) -> None:
    """A3."""
    world.grant()
    refused, end = world.net.partition(SECRET), world.net.log(SECRET).leo
    response = world.ask(produce_request(refused))
    assert all_errors(response) == {TOPIC_ERROR}
    assert world.net.log(SECRET).leo == end


def test_metadata_of_a_topic_that_may_not_be_described_is_that_of_one_that_is_missing(world: World) -> None:
    """A3: whether a topic exists is not shown."""
    world.grant()
    present, missing = world.ask(metadata_request(SECRET, HIDDEN)).topics
    assert replace(present, name=HIDDEN) == missing


def test_a_topic_that_may_not_be_created_is_not(world: World) -> None:
    world.grant(*on_topic(Operation.DESCRIBE, ABSENT))
    request = replace(metadata_request(ABSENT), allow_auto_topic_creation=True)
    assert errors(world.ask(request))[ABSENT] == {TOPIC_ERROR}
    world.net.advance(5_000)
    assert ABSENT not in world.node.image.topic_ids


def test_the_client_creates_the_topic_that_it_asks_for() -> None:
    """A1: the controller checks the rights of the client, not those of the broker."""
    net = Net(
        config(1, authorizer=AuthorizerConfig()), config(2, roles=("broker",), authorizer=AuthorizerConfig())
    ).up()
    for operation in (Operation.DESCRIBE, Operation.CREATE):
        for node in net.nodes.values():
            assert node.authorizer is not None
            node.authorizer.add(
                Acl(
                    resource_type=ResourceType.TOPIC,
                    resource_name="new",
                    pattern_type=PatternType.PREFIXED,
                    principal=ALICE.principal,
                    host="10.0.0.1",
                    operation=operation,
                )
            )
    request = replace(metadata_request("new-1"), allow_auto_topic_creation=True)
    assert errors(net.answered(2, request, ALICE))["new-1"] == {"unknown_topic_or_partition"}
    net.advance(5_000)
    assert "new-1" in net.nodes[1].image.topic_ids
    elsewhere = replace(ALICE, host="/10.0.0.2")
    refused = net.answered(2, create_request("new-2"), elsewhere)
    assert [topic.error_code.name for topic in refused.topics] == [TOPIC_ERROR]


def test_create_on_the_cluster_creates_every_topic_and_shows_no_configs(world: World) -> None:
    world.grant(*on_cluster(Operation.CREATE))
    request = replace(create_request(ABSENT), validate_only=True)
    (created,) = world.ask(request).topics
    assert (created.error_code, created.configs, created.num_partitions) == (ErrorCode.none, (), -1)
    assert created.topic_config_error_code == ErrorCode.topic_authorization_failed.value
    world.grant(*on_cluster(Operation.CREATE), *on_topic(Operation.DESCRIBE_CONFIGS, ABSENT))
    (created,) = world.ask(request).topics
    assert (created.num_partitions, created.topic_config_error_code) == (1, 0)
    assert created.configs


def test_the_metadata_log_cannot_be_created_and_what_is_named_twice_is_refused_once(world: World) -> None:
    """As in Kafka, whatever the rights are."""
    world.grant()
    topic = create_request("twice").topics[0]
    request = create_topics.CreateTopicsRequest(
        topics=(topic, topic, replace(topic, name="__cluster_metadata"), replace(topic, name="once")),
        timeout=ms(1_000),
        validate_only=True,
    )
    assert sorted(lines(world.ask(request))) == [
        ("__cluster_metadata", "invalid_request"),
        ("once", TOPIC_ERROR),
        ("twice", "invalid_request"),
    ]


def deletion(name: str | None = None, topic_id: UUID | None = None) -> delete_topics.DeleteTopicState:
    return delete_topics.DeleteTopicState(name=name, topic_id=topic_id)


def delete(world: World, *topics: delete_topics.DeleteTopicState) -> list[tuple[str | None, UUID | None, str]]:
    response = world.ask(delete_topics.DeleteTopicsRequest(topics=topics, timeout=ms(1_000)))
    return [(line.name, line.topic_id, line.error_code.name) for line in response.responses]


def test_topics_are_deleted_by_id_only_with_delete_on_their_names(world: World) -> None:
    """A3: an id does not show the name of a topic that may not be described."""
    secret, unknown = world.ids[SECRET], UUID(int=77)
    world.grant()
    assert delete(world, deletion(topic_id=secret)) == [(None, secret, TOPIC_ERROR)]
    assert delete(world, deletion(topic_id=unknown)) == [(None, unknown, "unknown_topic_id")]
    world.grant(*on_topic(Operation.DESCRIBE, SECRET))
    assert delete(world, deletion(topic_id=secret)) == [(SECRET, secret, TOPIC_ERROR)]
    assert delete(world, deletion(topic_id=secret), deletion(topic_id=secret)) == [(None, secret, "invalid_request")]
    assert SECRET in world.node.image.topic_ids
    world.grant(*on_cluster(Operation.DELETE))
    assert delete(world, deletion(HIDDEN)) == [(HIDDEN, None, "unknown_topic_or_partition")]


def test_deleting_a_missing_topic_is_answered_by_what_the_client_may_describe(world: World) -> None:
    """A3."""
    world.grant(*on_topic(Operation.DESCRIBE, SECRET), *on_topic(Operation.DESCRIBE, ABSENT))
    assert delete(world, deletion(SECRET), deletion(ABSENT), deletion(HIDDEN)) == [
        (SECRET, None, TOPIC_ERROR),
        (ABSENT, None, "unknown_topic_or_partition"),
        (HIDDEN, None, TOPIC_ERROR),
    ]
    assert SECRET in world.node.image.topic_ids


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("elect_leaders", {"election_type": 0, "topic_partitions": [{"topic": ORDERS, "partitions": (0, 1)}]}),
        (
            "alter_partition_reassignments",
            {"topics": [{"name": ORDERS, "partitions": [{"partition_index": n, "replicas": None} for n in (0, 1)]}]},
        ),
    ],
)
def test_a_refusal_by_the_cluster_names_every_partition(world: World, api: str, body: dict[str, Any]) -> None:
    """A3: clients look for the partitions that they asked for."""
    world.grant()
    request = build_request(codec.request_type(APIS[api].key, APIS[api].pinned), {"timeout": ms(1_000), **body})
    assert list(lines(world.ask(request))) == [("", CLUSTER_ERROR), (ORDERS, CLUSTER_ERROR), (ORDERS, CLUSTER_ERROR)]


def test_a_refused_list_of_reassignments_names_what_was_asked_for(world: World) -> None:
    world.grant()
    body = {"timeout": ms(1_000), "topics": [{"name": ORDERS, "partition_indexes": (0, 1)}]}
    response = world.ask(build_request(codec.request_type(46, 0), body))
    assert response.error_code.name == CLUSTER_ERROR
    (topic,) = response.topics
    assert (topic.name, [line.partition_index for line in topic.partitions]) == (ORDERS, [0, 1])
    assert {line.replicas for line in topic.partitions} == {()}


def test_a_page_of_topics_has_only_those_that_may_be_described(world: World) -> None:
    """A3: pages are counted without the others, and the cursor does not name one."""
    world.grant(*on_topic(Operation.DESCRIBE, SECRET))
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=(), response_partition_limit=1)
    response = world.ask(request)
    assert [topic.name for topic in response.topics] == [SECRET]
    assert response.next_cursor is None
    world.grant(*on_topic(Operation.DESCRIBE, ORDERS), *on_topic(Operation.DESCRIBE, SECRET))
    response = world.ask(request)
    assert [topic.name for topic in response.topics] == [ORDERS]
    assert response.next_cursor.topic_name == SECRET


def test_operations_are_those_that_the_client_may_do(world: World) -> None:
    world.grant(
        *on_topic(Operation.WRITE, ORDERS),
        (Operation.READ, ResourceType.GROUP, WORKERS),
        *on_cluster(Operation.DESCRIBE),
        *on_cluster(Operation.ALTER_CONFIGS),
    )
    asked = metadata.MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )
    (topic,) = world.ask(asked).topics
    assert topic.topic_authorized_operations == bits(Operation.WRITE, Operation.DESCRIBE)
    pages = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=())
    (page,) = world.ask(pages).topics
    assert page.topic_authorized_operations == bits(Operation.WRITE, Operation.DESCRIBE)
    (group,) = (
        group
        for group in world.ask(world.request(case_of("describe_groups"))).groups
        if group.error_code is ErrorCode.none
    )
    assert group.authorized_operations == bits(Operation.READ, Operation.DESCRIBE)
    cluster = world.ask(world.request(case_of("describe_cluster")))
    assert cluster.cluster_authorized_operations == bits(
        Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS
    )
    world.grant()
    assert world.ask(world.request(case_of("describe_cluster"))).cluster_authorized_operations == 0


def test_a_super_user_may_do_every_operation(world: World) -> None:
    """The bit fields are those of a node without an authorizer."""
    world.grant()
    described = world.ask(world.request(case_of("describe_cluster")), ADMIN)
    assert described.cluster_authorized_operations == operations.ON_CLUSTER
    asked = replace(metadata_request(ORDERS), include_topic_authorized_operations=True)
    assert world.ask(asked, ADMIN).topics[0].topic_authorized_operations == operations.ON_TOPIC
    groups = world.ask(world.request(case_of("describe_groups")), ADMIN).groups
    assert {group.authorized_operations for group in groups} == {operations.ON_GROUP}


def bits(*allowed: Operation) -> int:
    return sum(1 << operation for operation in allowed)


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def test_all_groups_are_listed_with_describe_on_the_cluster(world: World) -> None:
    world.grant(*on_cluster(Operation.DESCRIBE))
    listed = world.ask(world.request(case_of("list_groups"))).groups
    assert sorted(group.group_id for group in listed) == [OTHERS, WORKERS]


def test_controllers_are_described_with_alter_only(world: World) -> None:
    """As in Kafka, where their listener is not for clients (KIP-919)."""
    world.grant()
    request = replace(world.request(case_of("describe_cluster")), endpoint_type=2)
    assert world.ask(request).error_code.name == CLUSTER_ERROR
    world.grant(*on_cluster(Operation.ALTER))
    assert world.ask(request).error_code is ErrorCode.none


# --- at random --------------------------------------------------------------------------------------------------------


def random_acls(rng: random.Random) -> Iterator[Acl]:
    names = {
        ResourceType.TOPIC: (ORDERS, SECRET, ABSENT, HIDDEN, "*"),
        ResourceType.GROUP: (WORKERS, OTHERS, "*"),
        ResourceType.CLUSTER: ("kafka-cluster",),
    }
    for _ in range(rng.randrange(12)):
        kind = rng.choice(list(names))
        name = rng.choice(names[kind])
        prefixed = kind is not ResourceType.CLUSTER and name != "*" and rng.random() < 0.3
        yield Acl(
            resource_type=kind,
            resource_name=name[: rng.randint(1, len(name))] if prefixed else name,
            pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            principal=rng.choice([ALICE.principal, "User:*", "User:bob"]),
            host=rng.choice(["*", "10.0.0.1", "10.0.0.9"]),
            operation=rng.choice([Operation.ALL, *SUPPORTED_OPERATIONS[kind]]),
            permission=rng.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
        )


HARMLESS = [
    case for case in CASES if not case.between_nodes and case.api not in ("join_group", "produce", "delete_records")
]
"""Cases that leave the node as it is."""


def shown(response: Any, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, error) of the lines of a response that name one of `names`."""
    for label, error in lines(response):
        if label in names:
            yield label, error


def test_nothing_shows_a_topic_or_group_that_may_not_be_described(world: World) -> None:
    """A3: for any rights, such a resource is in a response only where the client named it, as refused. Read and Write
    imply Describe, so this holds for every API."""
    rng = random.Random(11)
    refused_only = REFUSALS | {"invalid_request"}
    seen = 0
    authorizer = world.node.authorizer
    assert authorizer is not None
    for _ in range(400):
        world.grant()
        for acl in random_acls(rng):
            authorizer.add(acl)
        case = rng.choice(HARMLESS)
        response = world.ask(world.request(case))
        if has_rights(authorizer, ResourceType.CLUSTER, "kafka-cluster"):
            continue  # with operations on the cluster one sees more
        hidden = {name for name in (ORDERS, SECRET) if not has_rights(authorizer, ResourceType.TOPIC, name)}
        hidden |= {name for name in (WORKERS, OTHERS) if not has_rights(authorizer, ResourceType.GROUP, name)}
        labels = hidden | {str(world.ids[name]) for name in hidden if name in world.ids}
        wrong = [line for line in shown(response, labels) if line[1] not in refused_only]
        assert not wrong, (case.name, list(authorizer))
        seen += len(labels)
    assert seen > 300


def has_rights(authorizer: Authorizer, kind: ResourceType, name: str) -> bool:
    return any(
        authorizer.authorize(ALICE.principal, "10.0.0.1", operation, kind, name).allowed
        for operation in SUPPORTED_OPERATIONS[kind]
    )
