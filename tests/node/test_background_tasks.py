"""The background tasks of a broker (checkpoints, flushes, retention), and what a clean stop writes (B5, T7)."""

from __future__ import annotations

from typing import Any

from insync.storage import checkpoints, clean_shutdown
from insync.storage.disk import read_all
from tests.node.node_harness import Net, config, config_request

DATA = "data"


def offsets(net: Net, file: str) -> Any:
    return checkpoints.decode_offsets(read_all(net.disks[1], f"{DATA}/{file}"))


def previous_epochs(net: Net) -> list[int]:
    """The previous epochs in the registrations of broker 2, which are held back."""
    return sorted({send.request.previous_broker_epoch for sender, send in net.held if sender == 2})


def during_a_flush() -> Net:
    """A record of "t" is being flushed on a slow disk."""
    net = Net().up()
    net.create("t", flush_ms="1000")
    net.produce(1, "t")
    net.slow_disks = [1]
    net.advance(3_000)
    return net


def test_high_watermarks_are_checkpointed_in_the_background() -> None:
    """H5: a restarted follower starts from the last one known, not from nothing."""
    net = Net().up()
    net.create("t")
    net.produce(1, "t")
    net.advance(config(1).hwm_checkpoint_interval_ms)
    assert (1, f"{DATA}/{checkpoints.HIGH_WATERMARKS}") in net.files
    assert offsets(net, checkpoints.HIGH_WATERMARKS) == {("t", 0): 1}


def test_a_recovery_point_moves_only_when_the_flush_is_done() -> None:
    """B5: a checkpoint never claims more than the disk holds."""
    net = during_a_flush()
    assert len(net.syncs) >= 1
    assert net.log("t").recovery_point == 0
    net.release_disks()
    assert net.log("t").recovery_point == 1
    net.advance(config(1).recovery_point_checkpoint_interval_ms)
    assert offsets(net, checkpoints.RECOVERY_POINTS) == {("t", 0): 1}


def test_a_log_is_flushed_when_it_is_due_and_not_before() -> None:
    net = Net().up()
    net.create("quick", flush_ms="1000")
    net.create("never")
    net.produce(1, "quick")
    net.produce(1, "never")
    net.advance(900)
    assert net.log("quick").recovery_point == 0
    net.advance(3_000)
    assert net.log("quick").recovery_point == 1
    assert net.log("never").recovery_point == 0


def test_what_is_written_during_a_flush_is_flushed_by_the_next() -> None:
    net = during_a_flush()
    net.produce(1, "t")
    net.release_disks()
    assert net.log("t").recovery_point == 1
    net.advance(3_000)
    assert net.log("t").recovery_point == 2


def test_a_topic_deleted_with_unflushed_data_does_not_fail_the_next_flush() -> None:
    """T7: its log is gone, and so is the need to flush it; the broker goes on."""
    net = Net().up()
    net.create("t", flush_ms="1000")
    net.produce(1, "t")
    net.delete("t")
    net.advance(5_000)
    assert net.stops == {}
    assert net.broker().background_tasks.unflushed == 0


def test_a_topic_deleted_while_it_is_flushed_does_not_stop_the_broker() -> None:
    """T7: the flush under way finds its files gone."""
    net = Net().up()
    net.create("t", flush_ms="1000", segment_bytes="200")
    for _ in range(4):
        net.produce(1, "t", b"x" * 100)
    net.slow_disks = [1]
    net.advance(3_000)
    flushes, net.syncs, net.slow_disks = net.syncs, [], []
    assert flushes
    net.delete("t")
    assert "t" not in net.nodes[1].image.topic_ids
    net.syncs = flushes
    net.release_disks()
    net.advance(3_000)
    assert net.stops == {}


def test_retention_deletes_closed_segments_below_the_high_watermark() -> None:
    """H5: the log start moves, which consumers see."""
    net = Net(config(1, wall_offset_ms=1_000_000_000)).up()
    net.create("t", segment_bytes="200", retention_ms="1000")
    for _ in range(6):
        net.produce(1, "t", b"x" * 100)
    net.advance(config(1).retention_check_interval_ms)
    log = net.log("t")
    assert "segments_deleted" in net.kinds(1)
    assert 0 < log.log_start <= log.hwm


def test_a_changed_topic_config_reaches_the_open_log() -> None:
    net = Net().up()
    net.create("t")
    net.answered(1, config_request("t", "max.message.bytes", "100"))
    assert net.log("t").config.max_message_bytes == 100
    token = net.produce(1, "t", b"x" * 200)
    assert net.answers[token].responses[0].partition_responses[0].error_code.name == "message_too_large"


def test_a_controlled_shutdown_flushes_every_log_and_leaves_its_epoch() -> None:
    """B5, B7: the next incarnation registers with it."""
    net = Net(config(1), config(2, roles=("broker",))).up()
    net.create("t", (2, 1))
    net.produce(2, "t")
    epoch = net.nodes[2].broker_epoch
    net.shut_down(2)
    net.advance(15_000)
    assert net.stops[2].clean
    assert net.disks[2].unsynced_bytes(f"{DATA}/t-0/{0:020d}.log") == 0
    net.hold = [(2, "heartbeat")]
    net.start(2)
    net.advance(1_000)
    assert previous_epochs(net) == [epoch]
    assert not net.disks[2].exists(f"{DATA}/{clean_shutdown.FILE}")


def test_a_broker_that_was_killed_registers_without_a_previous_epoch() -> None:
    """B5."""
    net = Net(config(1), config(2, roles=("broker",))).up()
    net.crash(2)
    net.hold = [(2, "heartbeat")]
    net.start(2)
    net.advance(1_000)
    assert previous_epochs(net) == [-1]


def test_a_broker_that_remembers_the_controller_registers_once() -> None:
    """B1: one incarnation, one registration in flight."""
    net = Net(config(1), config(2, roles=("broker",))).up()
    net.crash(2)
    net.hold = [(2, "heartbeat")]
    net.start(2)
    assert len(net.held) == 1


def test_an_incarnation_that_never_registered_passes_on_the_epoch_of_the_one_before() -> None:
    """B5: it changed nothing, so the last clean stop still counts."""
    net = Net(config(1), config(2, roles=("broker",))).up()
    epoch = net.nodes[2].broker_epoch
    net.shut_down(2)
    net.advance(15_000)
    net.hold = [(2, "heartbeat")]
    net.start(2)
    net.shut_down(2)
    assert net.stops[2].clean
    net.held = []
    net.start(2)
    net.advance(1_000)
    assert previous_epochs(net) == [epoch]


def test_recovery_points_are_written_off_the_loop_one_checkpoint_at_a_time() -> None:
    """A sync may take hundreds of milliseconds, during which the node would answer no request."""
    net = Net().up()
    net.create("t")
    net.produce(1, "t")
    net.log("t").flush()
    net.slow_disks.append(1)
    interval = config(1).recovery_point_checkpoint_interval_ms
    net.advance(3 * interval)
    begun = [sync for _, sync in net.syncs if type(sync.job).__name__ == "OffsetsCheckpoint"]
    assert len(begun) == 1
    assert not net.disks[1].exists(f"{DATA}/{checkpoints.RECOVERY_POINTS}")
    net.slow_disks.clear()
    net.release_disks()
    net.run()
    assert offsets(net, checkpoints.RECOVERY_POINTS) == {("t", 0): 1}
