"""A simulated administrator's tools: they list, describe and query all the time, and change what no other client uses.

Most of what they send only has to be answered while the cluster is under faults. What queries of offsets return is
compared with the log (S19).
"""

from __future__ import annotations

from functools import partial

from insync.metadata.partition import PartitionKey
from insync.properties.history import History
from insync.sansio import Message
from insync.sim.plans.plan import ClientPlan
from insync.sim.workload.client import Client, Leader, Worker
from insync.sim.workload.descriptions import (
    describe_access,
    describe_cluster,
    describe_configs,
    describe_logs,
    list_work,
)
from insync.sim.workload.group_tools import use_group
from insync.sim.workload.producer import WALL_CLOCK_START_MS
from insync.sim.workload.requests import list_offsets_request
from insync.wire.messages import (
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    create_topics,
    delete_records,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    offset_for_leader_epoch,
    update_features,
)
from insync.wire.types import ms

USER = "auditor"
MAX_TIMESTAMP = -3
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SCRAM_SHA_256 = 1
DELETE_PROBABILITY = 0.3


class Admin(Worker):
    def __init__(
        self, client: Client, plan: ClientPlan, history: History, topics: tuple[str, ...], voters: tuple[int, ...]
    ) -> None:
        super().__init__(client, plan, history, topics)
        self._voters = voters
        self._queries = (self._end_of_epoch, self._offset_by_time, self._offset_by_time, self._delete_records)
        self._tools = (
            partial(describe_cluster, client.rng),
            partial(describe_configs, client.rng),
            partial(describe_logs, client.rng),
            partial(describe_access, client.rng),
            partial(list_work, client.rng),
            use_group,
            self._change_configs,
            self._change_users,
            self._try_changes,
            self._fetch_in_session,
        )

    def _work(self) -> None:
        key = self._cache.pick_partition()
        if key is None:
            return
        leader = self._cache.leaders[key]
        rng = self.client.rng
        if rng.random() < 0.6:
            request = rng.choice(self._queries)(key, leader)
            self.client.ask(leader.node, request, self._on_response)
            return
        for request in rng.choice(self._tools)(key, leader):
            to_controller = rng.random() < 0.2
            self.client.ask(rng.choice(self._voters if to_controller else self.client.brokers), request, self._forget)

    def _on_response(self, response: Message | None, _now: int) -> None:
        if response is None:
            self._cache.refresh()

    def _forget(self, _response: Message | None, _now: int) -> None:
        pass

    # --- queries of offsets --------------------------------------------------------------------------------------

    def _end_of_epoch(self, key: PartitionKey, leader: Leader) -> Message:
        partition = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=key[1], current_leader_epoch=-1, leader_epoch=self.client.rng.randint(0, max(0, leader.epoch))
        )
        topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=leader.topic, partitions=(partition,))
        return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=(topic,))

    def _offset_by_time(self, key: PartitionKey, leader: Leader) -> Message:
        now_ms = self.client.engine.now // 1_000
        time = WALL_CLOCK_START_MS + self.client.rng.randint(0, now_ms)
        timestamp = MAX_TIMESTAMP if self.client.rng.random() < 0.2 else time
        return list_offsets_request(leader.topic, key[1], timestamp, leader_epoch=-1)

    def _delete_records(self, key: PartitionKey, leader: Leader) -> Message:
        """Sometimes more than there is, which has to be refused; -1 means up to the high watermark."""
        rng = self.client.rng
        offset = rng.choice((rng.randint(0, 20), rng.randint(0, 200), -1))
        if rng.random() > DELETE_PROBABILITY:
            return self._end_of_epoch(key, leader)
        partition = delete_records.DeleteRecordsPartition(partition_index=key[1], offset=offset)
        topic = delete_records.DeleteRecordsTopic(name=leader.topic, partitions=(partition,))
        return delete_records.DeleteRecordsRequest(topics=(topic,), timeout=ms(300))

    # --- changes -------------------------------------------------------------------------------------------------

    def _change_configs(self, key: PartitionKey, leader: Leader) -> list[Message]:
        rng = self.client.rng
        throttled = rng.random() < 0.5
        value = "*" if throttled else ""
        topic = tuple(
            incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value=value)
            for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
        )
        broker = tuple(
            incremental_alter_configs.AlterableConfig(
                name=name, config_operation=0, value=rng.choice(("20000", "100000"))
            )
            for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
        )
        size = incremental_alter_configs.AlterableConfig(
            name="max.message.bytes", config_operation=rng.choice((0, 1)), value="1000000"
        )
        resources = (
            (TOPIC_RESOURCE, leader.topic, (*topic, size)),
            (BROKER_RESOURCE, str(rng.choice(self.client.brokers)), broker),
        )
        return [
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=tuple(
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=kind, resource_name=name, configs=configs
                    )
                    for kind, name, configs in resources
                ),
                validate_only=False,
            )
        ]

    def _change_users(self, key: PartitionKey, leader: Leader) -> list[Message]:
        rng = self.client.rng
        entity = (alter_client_quotas.RequestEntity(entity_type="user", entity_name=USER),)
        limit = alter_client_quotas.OpData(key="producer_byte_rate", value=1e6, remove=rng.random() < 0.5)
        salt = rng.randbytes(16)
        upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(
            name=USER, mechanism=SCRAM_SHA_256, iterations=4_096, salt=salt, salted_password=salt * 2
        )
        deletion = alter_user_scram_credentials.ScramCredentialDeletion(name=USER, mechanism=SCRAM_SHA_256)
        deletes = rng.random() < 0.5
        return [
            alter_client_quotas.AlterClientQuotasRequest(
                entries=(alter_client_quotas.RequestEntry(entity=entity, ops=(limit,)),), validate_only=False
            ),
            alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                deletions=(deletion,) if deletes else (), upsertions=() if deletes else (upsertion,)
            ),
        ]

    def _try_changes(self, key: PartitionKey, leader: Leader) -> list[Message]:
        """What is validated only, or is not needed."""
        config = alter_configs.AlterableConfig(name="max.message.bytes", value="1000000")
        resource = alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=leader.topic, configs=(config,)
        )
        topic = create_topics.CreatableTopic(
            name="tried", num_partitions=2, replication_factor=1, assignments=(), configs=()
        )
        feature = update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=1, upgrade_type=1)
        return [
            alter_configs.AlterConfigsRequest(resources=(resource,), validate_only=True),
            create_topics.CreateTopicsRequest(topics=(topic,), timeout=ms(500), validate_only=True),
            update_features.UpdateFeaturesRequest(feature_updates=(feature,), validate_only=True),
            elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout=ms(500)),
        ]

    def _fetch_in_session(self, key: PartitionKey, leader: Leader) -> list[Message]:
        """Opens a fetch session and leaves it; a consumer that waits long is abandoned by its timeout."""
        partition = fetch.FetchPartition(
            partition=key[1],
            current_leader_epoch=-1,
            fetch_offset=self.client.rng.randint(0, 30),
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=300,
        )
        request = fetch.FetchRequest(
            max_wait=ms(self.client.timeout_ms * 2),
            min_bytes=100_000,
            max_bytes=1_000,
            isolation_level=self.client.rng.randint(0, 1),
            session_id=0,
            session_epoch=0,
            topics=(fetch.FetchTopic(topic_id=key[0], partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        self.client.ask(leader.node, request, self._forget)
        return []
