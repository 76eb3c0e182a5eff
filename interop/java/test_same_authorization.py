"""With the same ACLs, Apache Kafka and insync give the same answers: every API, operation and resource of
`tests/authorization_cases.py`, with all rights that a request needs, with some, with none, and with a denial.

Both start from the same properties file: SASL_PLAINTEXT, users with passwords, Kafka's StandardAuthorizer. Every
combination of a case and rights is a user of its own, so the ACLs are written once. What differs on purpose stands in
DELIBERATE, with why; a difference that has gone is reported too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any
from uuid import UUID

import pytest

from insync.client.request_builder import build_request
from insync.security.acl import CLUSTER_NAME, Acl, Operation, Permission, ResourceType
from insync.wire import codec
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode
from insync.wire.types import ms
from interop.java.secured_node import ADMIN, NO_ANSWER, SecuredNode
from interop.java.test_same_answers import NOT_COMPARED, to_json
from tests.authorization_cases import CASES, ORDERS, OTHERS, SECRET, TX, WORKERS, Case, Right

NOT_PROBED = ("get_replica_log_info", "sasl_handshake", "sasl_authenticate")
"""Kafka 4.1 does not have the first; the others belong to the login of a connection."""
EVERYTHING: tuple[Right, ...] = (
    (Operation.ALL, ResourceType.TOPIC, "*"),
    (Operation.ALL, ResourceType.GROUP, "*"),
    (Operation.ALL, ResourceType.TRANSACTIONAL_ID, "*"),
    (Operation.ALL, ResourceType.CLUSTER, CLUSTER_NAME),
)
VERSIONS = {"list_offsets": 10}
"""Where Kafka does not serve the version that nodes of insync speak."""
REFUSALS = (
    ErrorCode.cluster_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.topic_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
)
SHOWN = {
    "error_code", "name", "topic", "topic_name", "group_id", "key", "resource_type", "resource_name", "user",
    "transactional_id", "partition_index", "partition", "index", "topic_authorized_operations",
    "cluster_authorized_operations", "authorized_operations", "topic_config_error_code",
}  # fmt: skip
CONTENTS = {
    "configs", "api_keys", "supported_features", "finalized_features", "brokers", "records", "current_voters",
    "observers", "active_producers", "aborted_transactions", "record_errors",
}  # fmt: skip
ADDRESSES = ("nodes", "node_endpoints")
"""Of controllers; only Kafka lists them."""

FIRST, SECOND, BOTH, DENIED = "the first half", "the second half", "both halves", "everything but the first half"
NO_TRANSACTIONS = "insync has no transactions, and refuses them with TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
DELIBERATE: dict[tuple[str, str], str] = {
    ("init_producer_id of a transaction", FIRST): NO_TRANSACTIONS,
    ("list_transactions", DENIED): NO_TRANSACTIONS,
    **{("find_coordinator of transactions", rights): NO_TRANSACTIONS for rights in (FIRST, SECOND, BOTH, DENIED)},
    **{("consumer_group_heartbeat", rights): "insync does not serve it" for rights in ("nothing", FIRST)},
    ("describe_configs of a group", FIRST): "insync has no configs of groups",
    ("fetch_snapshot", FIRST): "Kafka answers UNKNOWN_SERVER_ERROR to a snapshot that it does not have",
}
"""By case and rights: why insync answers otherwise."""


@dataclass(frozen=True)
class Probe:
    """One case as one user."""

    case: Case
    rights: str
    user: str
    acls: tuple[Acl, ...]

    @property
    def name(self) -> str:
        return f"{self.case.name} with {self.rights}"


def _acls(user: str, rights: tuple[Right, ...], permission: Permission = Permission.ALLOW) -> tuple[Acl, ...]:
    return tuple(
        Acl(
            resource_type=kind,
            resource_name=name,
            principal=f"User:{user}",
            operation=operation,
            permission=permission,
        )
        for operation, kind, name in dict.fromkeys(rights)
    )


def _probes() -> Iterator[Probe]:
    for number, case in enumerate(case for case in CASES if case.api not in NOT_PROBED):
        by_name: dict[str, tuple[Right, ...]] = {"nothing": (), FIRST: case.open}
        if case.closed:
            by_name |= {SECOND: case.closed, BOTH: (*case.open, *case.closed)}
        for index, (name, rights) in enumerate(by_name.items()):
            user = f"u{number}r{index}"
            yield Probe(case, name, user, _acls(user, rights))
        if case.open:
            user = f"u{number}d"
            denials = _acls(user, case.open, Permission.DENY)
            yield Probe(case, DENIED, user, (*_acls(user, EVERYTHING), *denials))


PROBES = tuple(_probes())


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, SecuredNode]]:
    directory = tmp_path_factory.mktemp("secured")
    users = [probe.user for probe in PROBES]
    with (
        SecuredNode("kafka", directory / "kafka", users) as kafka,
        SecuredNode("insync", directory / "insync", users) as insync,
    ):
        both = {"kafka": kafka, "insync": insync}
        for node in both.values():
            prepare(node)
        yield both


def prepare(node: Any) -> None:
    """Topics, groups with offsets, and the ACLs of all users."""
    line = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    topics = [{"name": name, **line} for name in (ORDERS, SECRET)]
    send(node, ADMIN, "create_topics", {"topics": topics, "timeout": ms(30_000), "validate_only": False})
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    commit = {"member_id": "", "topics": [{"name": name, "partitions": [offset]} for name in (ORDERS, SECRET)]}
    for group in (WORKERS, OTHERS):
        wait_for(node, "find_coordinator", {"key_type": 0, "coordinator_keys": (group,)})
        wait_for(node, "offset_commit", {"group_id": group, **commit})
    if node.kind == "kafka":
        wait_for(node, "find_coordinator", {"key_type": 1, "coordinator_keys": (TX,)})
    wait_for(node, "init_producer_id", {"transactional_id": None, "transaction_timeout": ms(1_000)})
    acls = [acl for probe in PROBES for acl in probe.acls]
    creations = [acl.creation_fields() for acl in acls]
    created = send(node, ADMIN, "create_acls", {"creations": creations})
    assert {result.error_code.name for result in created.results} == {"none"}


def send(node: Any, user: str, api: str, body: dict[str, Any], version: int | None = None, **options: Any) -> Any:
    request_type = codec.request_type(APIS[api].key, APIS[api].pinned if version is None else version)
    return node.ask(user, build_request(request_type, body), **options)


def wait_for(node: Any, api: str, body: dict[str, Any], tries: int = 300) -> None:
    """Until the answer has no error: the first question may create a topic of the brokers."""
    for _ in range(tries):
        answer = send(node, ADMIN, api, body)
        if set(error_codes(answer)) == {ErrorCode.none}:
            return
        time.sleep(0.1)
    raise AssertionError(f"{node.kind} does not answer {api}: {answer}")


def error_codes(value: Any) -> Iterator[ErrorCode]:
    if isinstance(value, tuple):
        for item in value:
            yield from error_codes(item)
    elif is_dataclass(value):
        if hasattr(value, "error_code"):
            yield value.error_code
        for field in fields(value):
            yield from error_codes(getattr(value, field.name))


def topic_ids(node: Any) -> dict[str, UUID]:
    body = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    return {topic.name: topic.topic_id for topic in send(node, ADMIN, "metadata", body).topics}


def answer(node: Any, probe: Probe) -> Any:
    """What is refused in full; of the rest what there is, and its errors. `test_same_answers` compares contents."""
    case = probe.case
    response = send(
        node, probe.user, case.api, case.body(topic_ids(node)), VERSIONS.get(case.api), controller=case.of_controllers
    )
    if response == NO_ANSWER:
        return NO_ANSWER
    return {"refused": sorted(refused_lines(response), key=str), "all": outline(response)}


def refused_lines(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for item in value:
            yield from refused_lines(item)
    elif is_dataclass(value):
        if getattr(value, "error_code", None) in REFUSALS:
            yield to_json(value, NOT_COMPARED)
        else:
            for field in fields(value):
                yield from refused_lines(getattr(value, field.name))


def outline(value: Any) -> Any:
    """Names, errors and allowed operations; lists that are not about resources are only empty or not."""
    if isinstance(value, tuple):
        lines = [outline(item) for item in value if not str(getattr(item, "name", "")).startswith("__")]
        return sorted(lines, key=str)
    if not is_dataclass(value):
        return value
    names = [field.name for field in fields(value)]
    shown = {name: getattr(value, name) for name in names if name in SHOWN}
    shown |= {name: bool(getattr(value, name)) for name in names if name in CONTENTS}
    lists = {name: getattr(value, name) for name in names if name not in CONTENTS and name not in ADDRESSES}
    return shown | {name: outline(item) for name, item in lists.items() if isinstance(item, tuple) and _is_nested(item)}


def _is_nested(items: tuple[Any, ...]) -> bool:
    return all(is_dataclass(item) for item in items)


@pytest.mark.parametrize("probe", PROBES, ids=[probe.name for probe in PROBES])
def test_an_answer_is_kafkas(nodes: dict[str, SecuredNode], probe: Probe) -> None:
    """A1, A3."""
    answers = {name: answer(node, probe) for name, node in nodes.items()}
    if (probe.case.name, probe.rights) in DELIBERATE:
        assert answers["insync"] != answers["kafka"], "no longer a difference"
    else:
        assert answers["insync"] == answers["kafka"]
