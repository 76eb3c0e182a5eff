"""Random histories of one controller; after every step the invariants of all partitions are checked.

Beside the shape of the metadata, a small model of the worst leader is kept: one that commits with the ISR it knows, at
once, whenever that ISR has MinISR members by the config it knows. `complete` are the replicas that hold everything such
a leader may have committed; only they may be in the ISR or the ELR (S3, S5).
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from insync.metadata.partition import NO_LEADER, Partition
from insync.wire import metadata_records as records
from tests.controller.controller_harness import Cluster

BROKERS = (1, 2, 3, 4, 5)
TOPICS = {"a": ((1, 2, 3), 2), "b": ((3, 4, 5, 1), 3), "c": ((2, 5), 1)}

brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(sorted(TOPICS))
targets = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)


class Model:
    """What a worst-case leader of one partition may have done."""

    def __init__(self, partition: Partition, min_isr: int) -> None:
        self.complete = set(partition.isr)
        self.known_min_isr = min_isr
        self.promised = min(min_isr, len(partition.replicas))
        """S10: how many replicas were complete when the HWM last moved."""

    def commit(self, partition: Partition, min_isr: int) -> None:
        self.promised = min(self.promised, min_isr)  # who lowers MinISR takes the risk at once
        if len(partition.isr) >= min(self.known_min_isr, len(partition.replicas)):
            self.complete = set(partition.isr)
            self.promised = min(self.known_min_isr, len(partition.replicas))

    def changed(self, before: Partition, after: Partition, by_leader: bool, min_isr: int) -> None:
        if not by_leader:
            self.known_min_isr = min_isr  # the leader learns of it from the log, and so of all before it
        if after.leader not in (NO_LEADER, *before.isr, *before.elr):
            self.complete = set(after.isr)  # E7: a new truth
            self.promised = len(after.isr)
        elif by_leader:
            self.complete |= set(after.isr)  # the leader adds whom it saw catch up
        self.commit(after, min_isr)


class ControllerHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(recovery_retry_ms=1).up(*BROKERS)
        self.models = {}
        for name, (replicas, min_isr) in TOPICS.items():
            strategy = "balanced" if name == "a" else "proactive" if name == "c" else "manual"
            partition = self.cluster.topic(replicas, name=name, min_isr=min_isr, unclean_recovery_strategy=strategy)
            self.models[name] = Model(partition, min_isr)
        self.before = {name: self.cluster.partition(name) for name in TOPICS}
        self.seen = len(self.cluster.log)
        self.by_leader = False

    # --- rules -------------------------------------------------------------------------------------------------------

    @rule(broker=brokers)
    def fence(self, broker: int) -> None:
        self.cluster.fence(broker)

    @rule(broker=brokers)
    def beat(self, broker: int) -> None:
        for name, model in self.models.items():
            if self.cluster.partition(name).leader == broker:
                model.known_min_isr = self.cluster.image.min_isr(name)
        self.cluster.beat(broker)

    @rule(broker=brokers, clean=st.booleans())
    def restart(self, broker: int, clean: bool) -> None:
        self.cluster.fence(broker)
        self.follow_log()
        if not clean:
            for model in self.models.values():
                model.complete.discard(broker)
        self.cluster.register(broker, clean=clean)

    @rule(broker=brokers)
    def stop(self, broker: int) -> None:
        self.cluster.beat(broker, stop=True)

    @rule(name=topics, mask=st.integers(0, 15))
    def alter(self, name: str, mask: int) -> None:
        """The leader proposes itself and some of the eligible replicas."""
        partition = self.cluster.partition(name)
        if partition.leader == NO_LEADER:
            return
        able = [member for member in partition.replicas if self.cluster.controller.state.can_lead(member)]
        chosen = [member for bit, member in enumerate(able) if mask >> bit & 1 and member != partition.leader]
        self.by_leader = True
        self.cluster.alter((partition.leader, *chosen), name=name)

    @rule(stale=st.integers(0, 3), name=topics, isr=targets)
    def alter_wrongly(self, stale: int, name: str, isr: tuple[int, ...]) -> None:
        """An arbitrary proposal, perhaps with an old partition epoch."""
        partition = self.cluster.partition(name)
        if partition.leader != NO_LEADER:
            self.by_leader = True
            self.cluster.alter(isr, name=name, partition_epoch=partition.partition_epoch - stale)

    @rule()
    def everybody_returns(self) -> None:
        for broker in BROKERS:
            self.beat(broker)
            self.follow_log()

    @rule(name=topics, wanted=targets)
    def reassign(self, name: str, wanted: tuple[int, ...]) -> None:
        self.cluster.reassign(wanted, name=name)

    @rule(name=topics)
    def cancel(self, name: str) -> None:
        self.cluster.reassign(None, name=name)

    @rule(name=topics, election=st.sampled_from((0, 1)))
    def elect(self, name: str, election: int) -> None:
        self.cluster.elect(election, name=name)

    @rule(name=topics, min_isr=st.integers(1, 4))
    def change_min_isr(self, name: str, min_isr: int) -> None:
        self.cluster.configure("min.insync.replicas", str(min_isr), name=name)

    @rule(leos=st.lists(st.integers(0, 9), min_size=5, max_size=5))
    def recover(self, leos: list[int]) -> None:
        self.cluster.tick(after=1)
        for broker, send in self.cluster.sends().items():
            self.cluster.respond(send, last_epoch=0, leo=leos[broker - 1], known=2**31 - 1)

    @rule()
    def fail_over(self) -> None:
        self.cluster.fail_over()

    # --- what must hold ----------------------------------------------------------------------------------------------

    def follow_log(self) -> None:
        for record in self.cluster.log[self.seen :]:
            if isinstance(record, records.PartitionChangeRecord):
                self.follow_change(record)
        self.seen = len(self.cluster.log)
        self.by_leader = False
        for name, model in self.models.items():
            model.commit(self.before[name], self.cluster.image.min_isr(name))

    def follow_change(self, record: records.PartitionChangeRecord) -> None:
        name = self.cluster.image.topics[record.topic_id]
        before = self.before[name]
        after = before.changed_by(record)
        assert after.partition_epoch == before.partition_epoch + 1, "M2"
        assert after.leader_epoch - before.leader_epoch in (0, 1), "M2"
        assert after.leader == before.leader or after.leader_epoch > before.leader_epoch, "M2"
        self.before[name] = after
        self.models[name].changed(before, after, self.by_leader, self.cluster.image.min_isr(name))

    @invariant()
    def partitions_are_sound(self) -> None:
        self.follow_log()
        for name in TOPICS:
            partition = self.cluster.partition(name)
            assert partition == self.before[name], "the log is all there is"
            self.check_shape(partition)
            self.check_brokers(partition)
            self.check_model(partition, self.models[name])

    def check_shape(self, partition: Partition) -> None:
        replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
        last_known = set(partition.last_known_elr)
        assert len(replicas) == len(partition.replicas)
        assert isr <= replicas
        assert elr | last_known <= replicas
        assert not isr & elr
        assert not last_known & (isr | elr)
        assert set(partition.adding) | set(partition.removing) <= replicas
        assert not set(partition.adding) & set(partition.removing)
        if len(isr) >= partition.effective_min_isr(self.cluster.image.min_isr(partition.topic)):
            assert not elr, "E4"
            assert not last_known, "E4"

    def check_brokers(self, partition: Partition) -> None:
        active = {broker.id for broker in self.cluster.image.brokers.values() if broker.is_active}
        assert set(partition.isr) <= active, "B4, B7"
        if partition.leader == NO_LEADER:
            assert not partition.isr
            assert not set(partition.elr) & active, "E1"
        else:
            assert partition.leader in partition.isr

    def check_model(self, partition: Partition, model: Model) -> None:
        assert set(partition.isr) | set(partition.elr) <= model.complete, "S3, S5"
        if not partition.isr and not partition.elr:
            assert len(partition.last_known_elr) >= model.promised, "S10"


ControllerHistories.TestCase.settings = settings(max_examples=25, stateful_step_count=40, derandomize=True)
TestControllerHistories = ControllerHistories.TestCase
"""S3, S5, S10, M2, B4, E1-E8, R1-R5"""
