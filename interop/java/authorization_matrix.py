"""Sends every probe as every user to one secured broker, and collects the answers as plain data.

The same properties start either side: one node, broker and controller, whose listeners all need a login with PLAIN. All
users have their rights from the beginning, so that no probe waits for a change of ACLs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from insync.client.apis import Api
from insync.client.connection import Connection
from insync.client.errors import ConnectionLostError, UnreachableError
from insync.client.sasl import Credentials
from insync.client.security import Security
from insync.security.acl import Operation
from insync.wire import apis, batch
from insync.wire.errors import ErrorCode
from insync.wire.types import ms
from interop.java.authorization_bodies import TopicId, creations
from interop.java.authorization_probes import PROBES, Probe
from interop.java.authorization_users import EXISTING, EXISTING_GROUPS, USERS, acls
from interop.java.node_processes import HOST, Node
from tests.authorizer_settings import authorizer_settings

ADMIN, NODE = "admin", "node"
ANSWER_TIMEOUT_S = 10.0
WAIT_TIMEOUT_S = 120.0
"""Far more than anything takes, a JVM's start included."""
CLOSED = "connection closed"
CREATE_TOPICS, DELETE_TOPICS, METADATA, PRODUCE = 19, 20, 3, 0
CREATE_ACLS, FIND_COORDINATOR, INIT_PRODUCER_ID, OFFSET_COMMIT, DESCRIBE_CLUSTER, ALTER_CONFIGS = 30, 10, 22, 8, 60, 44
WITH_OPERATIONS = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
READ_AND_DESCRIBE = 1 << Operation.READ | 1 << Operation.DESCRIBE
LOWEST_PRODUCE = 3
"""Older versions are listed by ApiVersions but not served."""

Answers = dict[str, dict[str, Any]]
"""By probe and version, by user."""


def password_of(user: str) -> str:
    return f"secret of {user}"


def properties(ports: list[int], data: Path, allow_everyone: bool = False) -> str:
    """Kafka's names and syntax. `allow_everyone`: to a resource without ACLs."""
    port, controller_port = ports
    users = " ".join(f'user_{user}="{password_of(user)}"' for user in (ADMIN, NODE, *USERS))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'{module} required username="{NODE}" password="{password_of(NODE)}" {users};'
    values = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"CLIENTS://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"CLIENTS://{HOST}:{port}",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
        "listener.name.clients.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        **authorizer_settings(ADMIN, NODE),
        "allow.everyone.if.no.acl.found": "true" if allow_everyone else "false",
        "log.dirs": str(data),
        "log.retention.ms": "-1",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.io.threads": "2",
        "num.network.threads": "1",
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


FORMAT_OPTIONS = (f"--add-scram=SCRAM-SHA-256=[name={ADMIN},password={password_of(ADMIN)}]",)
"""The admin can log in by SCRAM too."""


async def collect_answers(
    nodes: Mapping[str, Node], probes: Iterable[Probe] = PROBES, users: Iterable[str] = USERS
) -> dict[str, Answers]:
    """By the name of a node. All nodes are asked at the same time, in versions that all of them serve; only these users
    have ACLs."""
    askers = {name: _Asker(node, tuple(users)) for name, node in nodes.items()}
    try:
        await asyncio.gather(*(asker.prepare() for asker in askers.values()))
        served = [asker.served for asker in askers.values()]
        questions = [(probe, _choose_versions(probe, served)) for probe in probes]
        answers = await asyncio.gather(*(asker.ask_all(questions) for asker in askers.values()))
        return dict(zip(askers, answers, strict=True))
    finally:
        for asker in askers.values():
            await asker.close()


def _choose_versions(probe: Probe, served: Iterable[Mapping[int, tuple[int, int]]]) -> tuple[int, ...]:
    versions = probe.versions
    if not versions:
        ranges = [apis.SERVED[probe.key], *(ranges[probe.key] for ranges in served if probe.key in ranges)]
        low = max((LOWEST_PRODUCE if probe.key == PRODUCE else 0, *(low for low, _ in ranges)))
        versions = tuple(sorted({low, min(high for _, high in ranges)}))
    return versions[-1:] if probe.newest_only else versions


class _Asker:
    def __init__(self, node: Node, users: tuple[str, ...]) -> None:
        self._users = users
        self.served: Mapping[int, tuple[int, int]] = {}
        """By API: the versions, for clients of brokers."""
        self._node = node
        self._connections: dict[tuple[str, bool], Connection] = {}
        self._topic_ids: dict[str, UUID] = {}

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()

    async def ask_all(self, questions: Iterable[tuple[Probe, tuple[int, ...]]]) -> Answers:
        answers: Answers = {}
        for probe, versions in questions:
            for version in versions:
                users = probe.users or (ADMIN, *self._users)
                answers[f"{probe.name} v{version}"] = {user: await self.ask(user, probe, version) for user in users}
        return answers

    async def ask(self, user: str, probe: Probe, version: int) -> Any:
        body = self._resolve(probe.body)
        try:
            answer = await self._call(user, probe, version, body)
        except ConnectionLostError as error:
            if "in time" in str(error):
                await self._connections.pop((user, probe.to_controller)).close()
                return "no answer"
            return CLOSED
        if probe.changes_topics:
            await self._restore_topics(probe.key, answer)
        return self._plain(answer)

    async def _call(self, user: str, probe: Probe, version: int, body: dict[str, Any]) -> Any:
        connection = await self._connection(user, probe.to_controller)
        api = Api(probe.name, probe.key, version, version)
        if probe.is_answered:
            return await connection.call(api, body, version=version)
        await connection.send(api, body)
        await connection.call(Api("Metadata", METADATA, 1, 1), {"topics": ()}, version=1)
        return "accepted"

    async def _connection(self, user: str, to_controller: bool = False) -> Connection:
        connection = self._connections.get((user, to_controller))
        if connection is not None and connection.is_alive:
            return connection
        if connection is not None:
            await connection.close()
        login = Credentials(mechanism="PLAIN", username=user, password=password_of(user))
        port = self._node.ports[to_controller]
        opened = await Connection.open(HOST, port, timeout_s=ANSWER_TIMEOUT_S, security=Security(sasl=login))
        self._connections[user, to_controller] = opened
        return opened

    # --- the state that the probes expect ----------------------------------------------------------------------------

    async def prepare(self) -> None:
        await self._until(self._is_ready)
        self.served = (await self._connection(ADMIN)).versions
        await self._create_topics(EXISTING)
        value = bytes(batch.build([batch.NewRecord(None, b"first")], timestamp_ms=1_000))
        data = [{"name": name, "partition_data": [{"index": 0, "records": value}]} for name in EXISTING]
        await self._admin(PRODUCE, 9, transactional_id=None, acks=-1, timeout=ms(10_000), topic_data=data)
        await self._until(self._has_coordinator)
        await self._until(self._has_producer_ids)
        for group in EXISTING_GROUPS:
            await self._until(partial(self._has_committed, group))
        created = await self._admin(CREATE_ACLS, 3, **creations(acls(self._users)))
        refused = [result for result in created.results if result.error_code is not ErrorCode.none]
        assert not refused, refused
        await self._until(self._has_acls)

    async def _is_ready(self) -> bool:
        """The broker is registered, and the controller takes connections too."""
        self._node.check_running()
        try:
            await self._connection(ADMIN, to_controller=True)
            answer = await self._admin(METADATA, 12, topics=(), allow_auto_topic_creation=False)
        except (UnreachableError, ConnectionLostError):
            return False
        return bool(answer.brokers)

    async def _has_coordinator(self) -> bool:
        answer = await self._admin(FIND_COORDINATOR, 6, key_type=0, coordinator_keys=("open",))
        return bool(answer.coordinators[0].error_code is ErrorCode.none)

    async def _has_committed(self, group: str) -> bool:
        """False while the coordinator is loading."""
        line = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topics = [{"name": name, "partitions": [line]} for name in EXISTING]
        answer = await self._admin(OFFSET_COMMIT, 8, group_id=group, member_id="", topics=topics)
        return all(line.error_code is ErrorCode.none for topic in answer.topics for line in topic.partitions)

    async def _has_producer_ids(self) -> bool:
        answer = await self._admin(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=ms(60_000))
        return bool(answer.error_code is ErrorCode.none)

    async def _has_acls(self) -> bool:
        """Broker and controller obey them, whether or not they allow everyone where there are no ACLs."""
        described = await self._ask_as("nobody", METADATA, 8, topics=[{"name": "public"}], **WITH_OPERATIONS)
        if described.topics[0].topic_authorized_operations != READ_AND_DESCRIBE:
            return False
        change = {"name": "retention.ms", "config_operation": 0, "value": "1000"}
        resources = [{"resource_type": 2, "resource_name": "public", "configs": [change]}]
        altered = await self._ask_as("nobody", ALTER_CONFIGS, 1, True, resources=resources, validate_only=True)
        if altered.responses[0].error_code is not ErrorCode.topic_authorization_failed:
            return False
        allowed = "cluster.all" if "cluster.all" in self._users else "nobody"
        cluster = await self._ask_as(allowed, DESCRIBE_CLUSTER, 1, True, **WITH_OPERATIONS, endpoint_type=2)
        return bool(cluster.error_code is ErrorCode.none)

    async def _ask_as(self, user: str, key: int, version: int, to_controller: bool = False, **body: Any) -> Any:
        connection = await self._connection(user, to_controller)
        return await connection.call(Api(f"API {key}", key, version, version), body, version=version)

    async def _create_topics(self, names: tuple[str, ...]) -> None:
        line = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
        topics = [{"name": name, **line} for name in names]
        await self._admin(CREATE_TOPICS, 7, topics=topics, timeout=ms(10_000), validate_only=False)
        await self._wait_for_topics(lambda known: known >= set(names))

    async def _restore_topics(self, key: int, answer: Any) -> None:
        """Undo what the answer says was done, once it is visible; a creation by Metadata follows its answer."""
        done = ErrorCode.unknown_topic_or_partition if key == METADATA else ErrorCode.none
        topics = answer.responses if key == DELETE_TOPICS else answer.topics
        names = tuple(topic.name for topic in topics if topic.error_code is done)
        if not names:
            return
        if key == DELETE_TOPICS:
            await self._wait_for_topics(lambda known: not known & set(names))
            await self._create_topics(names)
            return
        await self._wait_for_topics(lambda known: known >= set(names))
        await self._admin(DELETE_TOPICS, 5, topic_names=names, timeout=ms(10_000))
        await self._wait_for_topics(lambda known: not known & set(names))

    async def _wait_for_topics(self, satisfied: Callable[[set[str]], bool]) -> None:
        async def look() -> bool:
            answer = await self._admin(METADATA, 12, topics=None, allow_auto_topic_creation=False)
            led = [topic for topic in answer.topics if all(p.leader_id >= 0 for p in topic.partitions)]
            self._topic_ids = {topic.name: topic.topic_id for topic in led}
            return satisfied(set(self._topic_ids))

        await self._until(look)

    async def _until(self, look: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while not await look():
                await asyncio.sleep(0.002)

    async def _admin(self, key: int, version: int, **body: Any) -> Any:
        return await self._ask_as(ADMIN, key, version, **{"include_topic_authorized_operations": False, **body})

    # --- plain data --------------------------------------------------------------------------------------------------

    def _resolve(self, value: Any) -> Any:
        if isinstance(value, TopicId):
            return self._topic_ids[value.name]
        if isinstance(value, dict):
            return {key: self._resolve(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._resolve(item) for item in value]
        return value

    def _plain(self, value: Any) -> Any:
        """What JSON can express; lists come in any order, and ids of topics are named."""
        if is_dataclass(value):
            return {field.name: self._plain(getattr(value, field.name)) for field in fields(value)}
        if isinstance(value, tuple):
            return sorted((self._plain(item) for item in value), key=str)
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, UUID):
            return next((f"id of {name}" for name, known in self._topic_ids.items() if known == value), "an id")
        return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


NOT_COMPARED = {
    "throttle_time", "error_message", "host", "port", "cluster_id", "controller_id", "log_dir", "total_bytes",
    "usable_bytes", "partition_size", "producer_id", "producer_epoch", "last_timestamp", "records", "base_offset",
    "end_offset", "log_append_time", "high_watermark", "last_stable_offset", "session_id", "current_leader",
    "leader_epoch", "last_caught_up_timestamp", "last_fetch_timestamp", "log_end_offset",
    "producer_id_start", "node_endpoints",
}  # fmt: skip


def comparable(value: Any, key: int) -> Any:
    """Without texts, and without what depends on the time, the place, settings or earlier requests."""
    if isinstance(value, Mapping):
        return {name: _comparable_field(name, item, key) for name, item in value.items() if name not in NOT_COMPARED}
    if isinstance(value, list):
        return sorted((comparable(item, key) for item in value if not _is_internal_topic(item)), key=str)
    return value


def _comparable_field(name: str, value: Any, key: int) -> Any:
    if name == "aborted_transactions":
        return value or []  # W19: none is an empty array or null
    if key == CREATE_TOPICS and name in ("configs", "topic_id"):
        return "shown" if value and name == "configs" else None
    return comparable(value, key)


def _is_internal_topic(value: Any) -> bool:
    """Which of them exist depends on what was used."""
    return isinstance(value, Mapping) and str(value.get("name", "")).startswith("__")
