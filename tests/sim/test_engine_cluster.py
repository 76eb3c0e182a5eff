"""Nodes on simulated time: timers, requests, syncs, pauses and crashes."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from insync.errors import InvariantError
from insync.sansio import DiskFailed, Outbox, PeerLost, Request, Response, Shutdown, Synced, Timer
from insync.sim.engine.cluster import Cluster
from insync.sim.engine.disk import SimDisk
from insync.sim.engine.engine import Engine, NodeClock
from insync.sim.engine.network import Network


class Echo:
    """A node of a few lines: answers requests, asks a peer on each timer, writes and syncs on request."""

    def __init__(self, config: dict[str, Any], disk: SimDisk, rng: random.Random, now: int) -> None:
        self.config = config
        self.disk = disk
        self.out = Outbox()
        self.log: list[tuple[int, str]] = []
        self.due: int | None = now + config.get("every", 100) if config.get("peer") else None

    def start(self, now: int) -> list[Any]:
        self.log.append((now, "start"))
        return []

    def next_deadline(self) -> int | None:
        return self.due

    def step(self, event: Any, now: int) -> list[Any]:
        if isinstance(event, Request):
            self._request(event, now)
        elif isinstance(event, Response):
            event.send.on_response(event.response, now)
        elif isinstance(event, Synced):
            event.sync.on_done(now)
        elif isinstance(event, Timer) and self.due is not None and now >= self.due:
            self.due = now + self.config.get("every", 100)
            self.log.append((now, "timer"))
            request = self.config.get("request", "ping")
            self.out.send(self.config["peer"], "c", request, lambda r, n: self.log.append((n, f"got {r}")), 500)
        elif isinstance(event, Shutdown):
            self.out.stop(clean=True, reason="asked")
        elif isinstance(event, DiskFailed):
            self.out.stop(clean=False, reason="disk")
        elif isinstance(event, PeerLost):
            self.log.append((now, f"lost {event.peer}"))
        return self.out.drain()

    def _request(self, event: Request, now: int) -> None:
        self.log.append((now, f"asked {event.request}"))
        if event.request == "break":
            raise InvariantError("S1", "broken on request")
        if event.request == "write":
            file = self.disk.open("f")
            file.append(b"12345678")
            self.out.sync(_Job(file), lambda n: self.out.reply(event.token, "durable"))
        elif event.request == "checkpoint":
            self.out.write_file("c", b"%d" % len(self.log))
            self.out.reply(event.token, "ok")
        else:
            self.out.reply(event.token, "pong")


class _Job:
    def __init__(self, file: Any) -> None:
        self.file = file

    def run(self) -> None:
        self.file.sync()


class Witness:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.lost: list[Any] = []
        self.steps = 0

    def after_step(self, node_id: int, event: Any, effects: list[Any]) -> None:
        self.steps += 1

    def node_started(self, node_id: int) -> None:
        self.seen.append(("started", node_id))

    def node_ends(self, node_id: int) -> None:
        self.seen.append(("ends", node_id))

    def node_crashed(self, node_id: int, lost: Any) -> None:
        self.seen.append(("crashed", node_id))
        self.lost.append(lost)


def cluster(seed: int = 1, **asker: Any) -> tuple[Engine, Cluster, Witness]:
    engine = Engine()
    network = Network(engine, random.Random(f"n{seed}"))
    made = Cluster(engine, network, random.Random(seed), Echo, node_seed=str(seed))
    witness = Witness()
    made.observers = (witness,)
    made.add(1, {"peer": 2, **asker})
    made.add(2, {})
    made.start(1)
    made.start(2)
    return engine, made, witness


def words(made: Cluster, node: int) -> list[str]:
    return [text for _, text in made.node(node).log]


def test_a_timer_fires_at_the_nodes_deadline_and_the_answer_comes_back() -> None:
    engine, made, _ = cluster()
    engine.run_until(350_000)
    assert words(made, 1) == ["start", "timer", "got pong", "timer", "got pong", "timer", "got pong"]
    assert [at for at, text in made.node(1).log if text == "timer"] == [100, 200, 300]


def test_a_fast_clock_fires_early() -> None:
    engine = Engine()
    made = Cluster(engine, Network(engine, random.Random(1)), random.Random(1), Echo)
    made.add(1, {"peer": 1, "every": 1_000}, NodeClock(0, 1_000_000))
    made.start(1)
    engine.run_until(510_000)
    assert "timer" in words(made, 1)


def test_a_deadline_in_the_past_does_not_stop_time() -> None:
    engine, made, _ = cluster(every=0)
    engine.run_until(50_000)
    assert engine.now == 50_000
    assert 10 < words(made, 1).count("timer") <= 250


def test_a_crash_with_the_page_cache_kept_loses_no_byte() -> None:
    engine, made, witness = cluster(request="write")
    engine.run_until(150_000)
    made.crash(2)
    assert made.node(2) is None
    assert made.hosts[2].disk.open("f").size == 8
    assert witness.lost == [None]
    made.start(2)
    assert words(made, 2) == ["start"]
    assert witness.seen[-3:] == [("ends", 2), ("crashed", 2), ("started", 2)]


def test_a_power_loss_before_the_sync_is_done_may_lose_the_write_and_never_answers() -> None:
    sizes = []
    for seed in range(30):
        engine, made, _ = cluster(seed, request="write", every=100)
        made.hosts[2].disk_delay_us = 400_000
        engine.run_until(150_000)
        made.crash(2, lossy=True)
        engine.run_until(1_000_000)
        disk = made.hosts[2].disk
        sizes.append(disk.open("f").size if disk.exists("f") else 0)
        assert not [text for text in words(made, 1) if "durable" in text]
    assert min(sizes) < 8


def test_a_synced_write_survives_a_power_loss() -> None:
    for seed in range(20):
        engine, made, _ = cluster(seed, request="write", every=400)
        engine.run_until(450_000)
        assert "got durable" in words(made, 1)
        made.crash(2, lossy=True)
        assert made.hosts[2].disk.open("f").size == 8


@pytest.mark.parametrize(
    ("node", "word", "resumed_at", "times"),
    [
        pytest.param(2, "asked ping", 450, [450, 450, 450], id="the requests in its backlog"),
        pytest.param(1, "timer", 500, [500], id="timers that are due"),
    ],
)
def test_a_paused_node_handles_when_it_resumes(node: int, word: str, resumed_at: int, times: list[int]) -> None:
    engine, made, _ = cluster()
    engine.run_until(150_000)
    made.pause(node)
    engine.run_until(resumed_at * 1_000)
    assert words(made, node).count(word) == 1
    made.resume(node)
    engine.run_until(resumed_at * 1_000 + 2_000)
    assert [at for at, text in made.node(node).log if text == word][1:] == times


def test_a_request_in_the_socket_of_a_paused_node_is_carried_out_after_its_sender_timed_out() -> None:
    engine, made, _ = cluster(every=600)
    made.pause(2)
    engine.run_until(1_150_000)
    assert "got None" in words(made, 1)
    made.resume(2)
    assert "asked ping" in words(made, 2)


def test_a_full_disk_ends_the_process_and_it_is_restarted() -> None:
    engine, made, _ = cluster(request="write")
    made.hosts[2].disk.full = True
    engine.run_until(150_000)
    assert made.node(2) is None
    made.hosts[2].disk.full = False
    engine.run_until(600_000)
    assert made.node(2) is not None
    assert made.stats["disk_failed"] >= 1


def test_a_failed_sync_reaches_the_node_as_a_failed_disk() -> None:
    engine, made, witness = cluster(request="write", every=10_000)
    made.hosts[2].disk.failing = True
    engine.run_until(10_200_000)
    assert made.stats["unclean_stop"] == 1
    assert ("crashed", 2) in witness.seen


def test_an_invariant_that_a_node_finds_broken_ends_the_run() -> None:
    engine, made, _ = cluster(request="break")
    engine.run_until(1_000_000)
    assert made.violation is not None
    assert made.violation.name == "S1"
    assert engine.now < 200_000


def test_an_invariant_that_an_observer_finds_broken_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, made, witness = cluster()

    def complain(node_id: int, event: Any, effects: list[Any]) -> None:
        raise InvariantError("S2", "seen from outside")

    monkeypatch.setattr(witness, "after_step", complain)
    engine.run_until(1_000_000)
    assert made.violation is not None
    assert made.violation.name == "S2"


def test_a_controlled_shutdown_ends_clean_and_stays_down() -> None:
    engine, made, _ = cluster()
    made.shut_down(2)
    engine.run_until(2_000_000)
    assert made.node(2) is None
    assert made.stats["clean_stop"] == 1


def test_a_small_file_is_replaced_atomically_and_the_newest_version_wins() -> None:
    engine, made, _ = cluster(request="checkpoint", every=1)
    engine.run_until(300_000)
    made.crash(1)
    engine.run_until(400_000)
    disk = made.hosts[2].disk
    file = disk.open("c")
    last = max(i for i, text in enumerate(words(made, 2)) if text == "asked checkpoint")
    assert int(file.read(0, file.size)) == last + 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_seed_is_one_trace(seed: int) -> None:
    hashes = []
    for _ in range(2):
        engine, made, _ = cluster(seed, request="write")
        engine.call_at(250_000, made.crash, 2)
        engine.call_at(400_000, made.start, 2)
        engine.run_until(1_000_000)
        hashes.append(made.trace.hash)
    assert hashes[0] == hashes[1]


def test_different_seeds_are_different_traces() -> None:
    hashes = set()
    for seed in range(5):
        engine, made, _ = cluster(seed)
        engine.run_until(500_000)
        hashes.add(made.trace.hash)
    assert len(hashes) == 5


def test_a_failed_start_is_tried_again() -> None:
    engine = Engine()
    calls: list[int] = []

    def fails_once(config: Any, disk: SimDisk, rng: random.Random, now: int) -> Echo:
        calls.append(now)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "full")
        return Echo(config, disk, rng, now)

    made = Cluster(engine, Network(engine, random.Random(1)), random.Random(1), fails_once)
    made.add(1, {})
    made.start(1)
    assert made.node(1) is None
    engine.run_until(1_000_000)
    assert made.node(1) is not None
