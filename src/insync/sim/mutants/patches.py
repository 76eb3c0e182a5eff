"""Replacements for removed safeguards: each function maps the original to its replacement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any


def always(value: Any) -> Callable[[Any], Any]:
    """A function that returns `value` for any arguments."""
    return lambda _original: lambda *_args, **_kwargs: value


def always_static(value: Any) -> Callable[[Any], Any]:
    """The same for a static method."""
    return lambda _original: staticmethod(lambda *_args: value)


def truncate_to_hwm_first(original: Any) -> Any:
    def add(self: Any, replica: Any, leader: int, leader_epoch: int) -> None:
        replica.log.truncate_to(replica.log.hwm)
        original(self, replica, leader, leader_epoch)

    return add


def exact_epoch_only(original: Any) -> Any:
    def end_of_epoch(log: Any, epoch: int) -> Any:
        end = original(log, epoch)
        return end if end.epoch == epoch else type(end)(epoch, log.leo)

    return end_of_epoch


def unclamped(_original: Any) -> Any:
    def set_hwm(self: Any, offset: int) -> None:
        self.hwm = offset

    return set_hwm


def elr_only(original: Any) -> Any:
    def expel_unclean(state: Any, broker_id: int, cause: str) -> Any:
        made = original(state, broker_id, cause)
        keeps = [p.key for p in state.image.partitions_of(broker_id) if broker_id in p.isr]
        return [record for record in made if (record.topic_id, record.partition_id) not in keeps]

    return expel_unclean


def unless_leaving(_original: Any) -> Any:
    """A broker that is fenced or shutting down is eligible; one that is just being fenced is not."""
    return lambda self, broker_id: broker_id not in self.leaving


def without_former_members(original: Any) -> Any:
    """A replica that leaves the ISR does not join the ELR."""

    def derive_elr(self: Any) -> None:
        before = self.before
        self.before = replace(before, isr=())
        original(self)
        self.before = before

    return derive_elr


def fenced_first(original: Any) -> Any:
    """The record that fences the broker comes with the first slice, and not with the last."""

    def fence(state: Any, broker: Any, cause: str) -> Any:
        from insync.controller.decision import Decision
        from insync.wire import metadata_records as records

        fencing = records.BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, fenced=records.FENCED
        )
        slices = original(state, broker, cause)
        yield Decision(records=(fencing, *next(slices).records))
        for decision in slices:
            yield Decision(records=decision.records)

    return fence


def clean_file_first(_original: Any) -> Any:
    def close_cleanly(self: Any, broker_epoch: int) -> None:
        from insync.storage import clean_shutdown

        self.checkpoint_recovery_points()
        clean_shutdown.write(self._disk, self.root, broker_epoch, None)
        # The machine goes down here: nothing is flushed.

    return close_cleanly


def read_and_keep(_original: Any) -> Any:
    def take(disk: Any, root: str) -> Any:
        from insync.storage import clean_shutdown
        from insync.storage import disk as disks

        data = disks.read_if_exists(disk, disks.join(root, clean_shutdown.FILE))
        return None if data is None else clean_shutdown.decode(data)

    return take


def persist_unsynced(_original: Any) -> Any:
    def persist(self: Any) -> None:
        from insync.storage import checkpoints

        file = self._disk.open(self._path)
        file.sync()  # the version before has long reached the disk by itself
        file.truncate(0)
        file.append(checkpoints.encode_epochs(self.entries))
        file.close()
        self.dirty = False

    return persist


def epochs_closed_unsynced(original: Any) -> Any:
    def close_all(disk: Any, logs: Any) -> None:
        from insync.storage import disk as disks

        before = [(log, disks.read_if_exists(disk, log.epochs._path)) for log in logs]
        original(disk, logs)
        for log, old in before:
            if old is not None:
                new = disks.read_all(disk, log.epochs._path)
                disks.write_plainly(disk, log.epochs._path, old, sync=True)
                disks.write_plainly(disk, log.epochs._path, new)

    return close_all


def truncate_below_hwm(original: Any) -> Any:
    def truncate_to(self: Any, offset: int) -> None:
        original(self, max(self.log.log_start, min(offset, self.hwm - 1)))

    return truncate_to


def forgotten_vote(_original: Any) -> Any:
    from insync.quorum.state_file import ElectionState

    return lambda logged_epoch, _stored, _checkpoint: ElectionState(epoch=logged_epoch)


def never(_original: Any) -> Any:
    from insync.quorum.leader import NO_DEADLINE

    return lambda _self: NO_DEADLINE


def one_answer_is_enough(_original: Any) -> Any:
    def has_required_answers(self: Any, recovery: Any, partition: Any) -> bool:
        return any(self._valid_answer(recovery, member) is not None for member in partition.last_known_elr)

    return has_required_answers


def done_with_min_isr(_original: Any) -> Any:
    """A reassignment completes although replicas that it adds are not in the ISR."""
    return lambda self: self.keeps_min_isr()


def same_leader_epoch(original: Any) -> Any:
    def complete(self: Any) -> None:
        before = self.new_leader_epoch
        original(self)
        self.new_leader_epoch = before

    return complete


def count_committed_isr(original: Any) -> Any:
    """The high watermark goes by the committed ISR instead of the maximal one."""

    def advance_hwm(self: Any, now: int) -> None:
        from insync.replication.isr import Committed

        isr_state, self.isr_state = self.isr_state, Committed(self.isr_state.isr)
        original(self, now)
        self.isr_state = isr_state

    return advance_hwm


def as_if_fetched(original: Any) -> Any:
    """A follower may join without a fetch in this leader epoch."""

    def can_join(self: Any, progress: Any) -> bool:
        fetched, progress.fetched_in_epoch = progress.fetched_in_epoch, True
        result: bool = original(self, progress)
        progress.fetched_in_epoch = fetched
        return result

    return can_join


def same_incarnation_is_enough(_original: Any) -> Any:
    """A follower on a broker that is fenced or shutting down may join."""

    def is_eligible(self: Any, progress: Any) -> bool:
        return bool(progress.broker_epoch == self._state.cluster.broker_epoch_of(progress.broker))

    return is_eligible


def everyone_acts_on_cluster(original: Any) -> Any:
    def may_on_cluster(self: Any, operation: Any, *, audited: bool = True) -> bool:
        from insync.security.acl import Operation

        return operation is Operation.CLUSTER_ACTION or bool(original(self, operation, audited=audited))

    return may_on_cluster


def session_by_id(_original: Any) -> Any:
    return lambda self, request, principal: self._sessions.get(request.session_id)


def to_leo(_original: Any) -> Any:
    return lambda hwm, leo, *, from_follower: leo
