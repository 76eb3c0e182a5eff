"""Records traces of the specification while a plan runs.

The recorder is an observer of the cluster, and while it is attached it wraps the functions of the protocol in which a
broker takes a step of the specification: one simulated step may be several of these, and their order matters. Nodes do
not know of it, and without a recorder nothing is wrapped.

The controller's steps are the records of the metadata log, in their order, when the first node knows that they are
committed; what a deposed controller decided and never committed leaves no trace (Q2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from insync.metadata.image import Image
from insync.metadata.partition import Partition, PartitionKey
from insync.replication.isr import Proposal
from insync.sansio import Effect, Event, Stop
from insync.sim.engine.cluster import Cluster, Lost
from insync.sim.mutants.catalogue import resolve_attribute
from insync.sim.validation.partition_recorder import FetchRound, PartitionRecorder
from insync.sim.validation.steps import NONE, PartitionTrace, Step, observe_controller
from insync.wire import batch, metadata_records
from insync.wire.errors import ErrorCode
from insync.wire.types import ZERO_UUID

Original = Callable[..., Any]
OnAnswered = Callable[[PartitionRecorder, Proposal, Step], None]


class Recorder:
    """The traces of all partitions of one run; a narrator of `run_plan`."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.partitions: dict[PartitionKey, PartitionRecorder] = {}
        self.ended: list[PartitionRecorder] = []
        self._cluster: Any = None
        self._image = Image()
        self._committed = 0
        self._accepted: dict[int, tuple[metadata_records.PartitionChangeRecord, Proposal, int]] = {}
        """Proposals that a controller accepted, by the offset of the record."""
        self._refused: dict[int, list[tuple[PartitionKey, Proposal]]] = {}
        """Proposals that a controller refused, by the end of the log on which it decided."""
        self._sent_proposals: dict[int, tuple[Any, Proposal]] = {}
        self._fetches: dict[int, tuple[Any, dict[PartitionKey, FetchRound]]] = {}
        """Rounds by the identity of the request, which the simulator delivers as it is."""
        self._rounds: dict[Any, dict[PartitionKey, FetchRound]] = {}
        """The current rounds of each fetcher."""
        self._arriving: dict[PartitionKey, FetchRound] = {}
        self._parked: dict[tuple[int, int], dict[PartitionKey, FetchRound]] = {}
        self._acks = -1
        self._is_nested = False
        self._stopped_cleanly: set[int] = set()

    @property
    def traces(self) -> list[PartitionTrace]:
        return [recorder.trace for recorder in (*self.ended, *self.partitions.values())]

    def finish(self) -> None:
        for recorder in self.partitions.values():
            recorder.compare_logs()
        for recorder in (*self.ended, *self.partitions.values()):
            recorder.finish()

    # --- observer ----------------------------------------------------------------------------------------------------

    def attach(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def mark(self, time_us: int, text: str) -> None:
        """Faults show by what the nodes do."""

    def node_started(self, node_id: int) -> None:
        if self._cluster.node(node_id).broker_role is not None:
            for recorder in self.partitions.values():
                recorder.started(node_id)

    def node_ends(self, node_id: int) -> None:
        """Its last step was recorded."""

    def node_crashed(self, node_id: int, lost: Lost | None) -> None:
        is_clean = node_id in self._stopped_cleanly
        self._stopped_cleanly.discard(node_id)
        for recorder in self.partitions.values():
            if node_id in recorder.trace.brokers:
                recorder.ended(node_id, is_clean=is_clean)

    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None:
        node = self._cluster.node(node_id)
        self._read_committed(node)
        if self._refused:
            self._refuse_up_to(self._committed)
        for recorder in self.partitions.values():
            recorder.catch_up(node_id)
        if node.stopped and any(isinstance(effect, Stop) and effect.clean for effect in effects):
            self._stopped_cleanly.add(node_id)

    # --- the committed metadata log ----------------------------------------------------------------------------------

    def _read_committed(self, node: Any) -> None:
        quorum = node.quorum
        if quorum.hwm <= self._committed:
            return
        committed = [
            (offset, metadata_records.decode(payload))
            for offset, _, payload in quorum.read_committed(self._committed, quorum.hwm)
        ]
        self._committed = quorum.hwm
        for offset, record in _expelled_first(committed, self._image):
            self._refuse_up_to(offset)
            self._apply(offset, record)

    def _refuse_up_to(self, offset: int) -> None:
        """Proposals that were refused before the record at `offset` was decided."""
        for end in [end for end in self._refused if end <= offset]:
            for key, proposal in self._refused.pop(end):
                if key in self.partitions:
                    self.partitions[key].refused(proposal)

    def _apply(self, offset: int, record: metadata_records.MetadataRecord) -> None:
        image = self._image
        if isinstance(record, metadata_records.PartitionChangeRecord):
            self._change_partition(offset, record)
            return
        image.apply(record, offset)
        changes = image.take_changes()
        for key in changes.deleted:
            recorder = self.partitions.pop(key, None)
            if recorder is not None:
                recorder.end("topic deleted")
                self.ended.append(recorder)
        for key in changes.partitions:
            partition = image.partition(key)
            if partition is not None and isinstance(record, metadata_records.PartitionRecord):
                self._begin(partition)
        if changes.configs:
            for recorder in self.partitions.values():
                recorder.set_min_isr(image.min_isr(recorder.trace.name.rpartition("-")[0]))
        for broker_id in changes.brokers:
            self._broker_changed(broker_id, record)

    def _change_partition(self, offset: int, record: metadata_records.PartitionChangeRecord) -> None:
        key = (record.topic_id, record.partition_id)
        before = self._image.partition(key)
        self._image.apply(record, offset)
        self._image.take_changes()
        after = self._image.partition(key)
        recorder = self.partitions.get(key)
        if recorder is None or before is None or after is None:
            return
        made, proposal, sender = self._accepted.get(offset, (None, None, NONE))
        if made != record:
            proposal = None
        recorder.partition_changed(before, after, proposal, sender, self._image)

    def _broker_changed(self, broker_id: int, record: metadata_records.MetadataRecord) -> None:
        broker = self._image.brokers.get(broker_id)
        for key, recorder in self.partitions.items():
            partition = self._image.partition(key)
            if partition is None:
                continue
            if broker is None:
                recorder.end("broker unregistered")
            elif isinstance(record, metadata_records.RegisterBrokerRecord):
                recorder.registered(broker, partition)
            elif broker.is_active:
                recorder.unfenced(broker_id, partition)
            else:
                recorder.fenced(broker_id, partition)

    def _begin(self, partition: Partition) -> None:
        """The trace starts with the partition's creation: no broker has applied it."""
        brokers = tuple(sorted(id_ for id_, host in self._cluster.hosts.items() if "broker" in host.config.roles))
        trace = PartitionTrace(
            name=partition.name,
            key=partition.key,
            min_isr=self._image.min_isr(partition.topic),
            seed=self.seed,
            brokers=brokers,
            init={},
        )
        recorder = PartitionRecorder(trace, self._cluster)
        trace.init = {"controller": observe_controller(partition), "brokers": recorder.begin(self._image)}
        self.partitions[partition.key] = recorder

    # --- wrapped functions -------------------------------------------------------------------------------------------

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Wrap the functions in which brokers and controllers take steps of the specification."""
        undo: list[tuple[Any, str, Any]] = []
        try:
            for path, wrapper in self._wrappers().items():
                owner, name = resolve_attribute(path)
                original = owner.__dict__[name]
                undo.append((owner, name, original))
                setattr(owner, name, _bind(wrapper, original))
            yield
        finally:
            for owner, name, original in reversed(undo):
                setattr(owner, name, original)

    def _wrappers(self) -> dict[str, Callable[..., Any]]:
        return {
            "replication.produce_server:ProduceServer._append": self._on_produce,
            "replication.leader:Leader.append": self._on_append,
            "replication.leader:Leader.record_fetch": self._on_record_fetch,
            "replication.leader:Leader._propose": self._on_propose,
            "replication.leader:Leader.accept_proposal": partial(
                self._on_answered, PartitionRecorder.proposal_accepted
            ),
            "replication.leader:Leader.revert_proposal": partial(self._on_answered, PartitionRecorder.proposal_refused),
            "replication.leader:Leader.withdraw_proposal": self._on_withdraw,
            "replication.alter_partition:AlterPartitionSender._make_request": self._on_send_proposals,
            "replication.fetcher:Fetcher._make_request": self._on_send_fetch,
            "replication.fetch_server:FetchServer.fetch": self._on_fetch,
            "replication.fetch_server:FetchServer._reply": self._on_reply,
            "replication.follower:apply_fetched": self._on_apply_fetched,
            "replication.transitions:apply_partition": self._on_metadata,
            "replication.transitions:delete_replica": self._on_delete,
            "controller.alter_partition:_alter_partition": self._on_alter_partition,
        }

    def _of(self, key: PartitionKey) -> PartitionRecorder | None:
        recorder = self.partitions.get(key)
        return None if recorder is None or recorder.trace.ended else recorder

    def _on_produce(
        self, original: Original, server: Any, topic_id: Any, data: Any, acks: int, *rest: Any, **kw: Any
    ) -> Any:
        self._acks = acks
        return original(server, topic_id, data, acks, *rest, **kw)

    def _on_append(self, original: Original, leader: Any, *args: Any) -> Any:
        recorder = self._of(leader.replica.key)
        if recorder is None:
            return original(leader, *args)
        log, start, trace = leader.replica.log, leader.replica.log.leo, recorder.trace

        def on_kept(step: Step) -> None:
            step.fields["values"] = tuple(value for _, value in trace.records(log, start, log.leo))

        with recorder.step("WriteRecords", leader._state.broker_id, on_kept, all=self._acks == -1):
            return original(leader, *args)

    def _on_record_fetch(self, original: Original, leader: Any, cached: Any, *args: Any) -> Any:
        recorder = self._of(leader.replica.key)
        if recorder is None:
            return original(leader, cached, *args)
        on_kept = partial(recorder.fetch_arrived, self._arriving.get(leader.replica.key))
        with recorder.step("FetchRequest", leader._state.broker_id, on_kept, records=0):
            return original(leader, cached, *args)

    def _on_propose(self, original: Original, leader: Any, *args: Any) -> Any:
        recorder = self._of(leader.replica.key)
        if recorder is None:
            return original(leader, *args)
        broker = leader._state.broker_id
        result = original(leader, *args)
        recorder.proposed(broker, leader.isr_state, "ProposeIsr")
        return result

    def _on_answered(self, on_kept: OnAnswered, original: Original, leader: Any, proposal: Proposal, *args: Any) -> Any:
        """`on_kept`: what the recorder of the partition does if the leader keeps to the answer."""
        recorder = self._of(leader.replica.key)
        if recorder is None:
            return original(leader, proposal, *args)
        with recorder.step("ProposalAnswered", leader._state.broker_id, partial(on_kept, recorder, proposal)):
            return original(leader, proposal, *args)

    def _on_withdraw(self, original: Original, leader: Any, *args: Any) -> Any:
        recorder = self._of(leader.replica.key)
        result = original(leader, *args)
        if recorder is not None:
            recorder.proposed(leader._state.broker_id, result, "WithdrawProposal")
        return result

    def _on_send_proposals(self, original: Original, sender: Any, ready: list[Any]) -> Any:
        request = original(sender, ready)
        proposals = {attempt.replica.key: attempt.proposal for attempt in ready}
        for topic in request.topics:
            for partition in topic.partitions:
                key = (topic.topic_id or ZERO_UUID, partition.partition_index)
                self._sent_proposals[id(partition)] = (partition, proposals[key])
        return request

    def _on_alter_partition(
        self,
        original: Original,
        state: Any,
        sender: int,
        key: PartitionKey,
        proposal: Any,
        is_repeated: bool,
        made: Any,
    ) -> Any:
        before = len(made)
        result = original(state, sender, key, proposal, is_repeated, made)
        known = self._sent_proposals.get(id(proposal))
        if known is not None and len(made) > before:
            self._accepted[state.next_offset + len(made) - 1] = (made[-1], known[1], sender)
        elif known is not None:
            self._refused.setdefault(state.next_offset + len(made), []).append((key, known[1]))
        return result

    def _on_send_fetch(self, original: Original, fetcher: Any, keys: list[PartitionKey], *args: Any) -> Any:
        request = original(fetcher, keys, *args)
        rounds = {}
        for key, earlier in self._rounds.get(fetcher, {}).items():
            recorder = self._of(key)
            if recorder is not None:
                recorder.fetch_ended(fetcher._state.broker_id, fetcher._leader, earlier)
        for key in (*keys, *(key for key in fetcher._in_session if key not in keys)):
            recorder = self._of(key)
            if recorder is not None and key in fetcher._positions:
                broker = fetcher._state.broker_id
                recorder.catch_up(broker)
                rounds[key] = recorder.fetch_sent(broker, fetcher._leader)
        self._fetches[id(request)] = (request, rounds)
        self._rounds[fetcher] = rounds
        return request

    def _on_fetch(self, original: Original, server: Any, request: Any, token: int, *args: Any) -> Any:
        _, rounds = self._fetches.get(id(request), (None, {}))
        self._arriving = self._parked[server._state.broker_id, token] = rounds
        try:
            return original(server, request, token, *args)
        finally:
            self._arriving = {}

    def _on_reply(self, original: Original, server: Any, parked: Any, served: Any, *args: Any) -> Any:
        broker = server._state.broker_id
        rounds = self._parked.pop((broker, parked.token), {})
        for topic_id, data in served.partitions:
            key = (topic_id, data.partition_index)
            recorder = self._of(key)
            if recorder is not None and key in rounds and data.error_code is ErrorCode.none:
                recorder.catch_up(broker)
                recorder.fetch_answered(broker, rounds[key], data, _count_records(data.records or b""))
        return original(server, parked, served, *args)

    def _on_apply_fetched(self, original: Original, state: Any, replica: Any, fetched: Any) -> Any:
        recorder = self._of(replica.key)
        if recorder is None:
            return original(state, replica, fetched)
        with recorder.step("FetchResponse", state.broker_id, partial(recorder.fetch_applied, fetched)):
            return original(state, replica, fetched)

    def _on_metadata(self, original: Original, state: Any, fetchers: Any, partition: Partition, now: int) -> None:
        self._read_committed(self._cluster.node(state.broker_id))
        recorder = self._of(partition.key)
        if recorder is None:
            original(state, fetchers, partition, now)
            return
        with recorder.step("MetadataUpdate", state.broker_id, offset=partition.partition_epoch + 1):
            self._is_nested = True
            try:
                original(state, fetchers, partition, now)
            finally:
                self._is_nested = False

    def _on_delete(self, original: Original, state: Any, fetchers: Any, key: PartitionKey) -> None:
        recorder = None if self._is_nested else self._of(key)
        node = self._cluster.node(state.broker_id)
        partition = None if recorder is None else node.image.partition(key)
        if recorder is None or partition is None:
            original(state, fetchers, key)
            return
        self._read_committed(node)
        recorder.catch_up(state.broker_id)
        action = "MetadataUpdate" if key in state.replicas else "DeleteLog"
        with recorder.step(action, state.broker_id, offset=partition.partition_epoch + 1):
            original(state, fetchers, key)


def _count_records(records: batch.Bytes) -> int:
    return sum(header.last_offset - header.base_offset + 1 for _, header in batch.iter_headers(records))


def _expelled_first(
    committed: list[tuple[int, metadata_records.MetadataRecord]], image: Image
) -> list[tuple[int, metadata_records.MetadataRecord]]:
    """B6: in the specification an unclean broker leaves the ELR in the step that registers it. Here that is a change of
    its own, which may follow in the same batch; it is moved before the registration."""
    ordered = list(committed)
    for index, (_, record) in enumerate(committed):
        if not isinstance(record, metadata_records.RegisterBrokerRecord):
            continue
        position = index
        for following in committed[index + 1 :]:
            change = following[1]
            if not isinstance(change, metadata_records.PartitionChangeRecord):
                break
            partition = image.partition((change.topic_id, change.partition_id))
            elr = change.eligible_leader_replicas
            if (
                partition is not None
                and elr is not None
                and record.broker_id in partition.elr
                and record.broker_id not in elr
            ):
                ordered.remove(following)
                ordered.insert(position, following)
                position += 1
    return ordered


def _bind(wrapper: Callable[..., Any], original: Original) -> Original:
    return lambda *args, **kwargs: wrapper(original, *args, **kwargs)
