"""What the steps of one scenario share: a cluster without chance, and the text so far.

Every link has the same latency and every disk the same delay. Where the simulator would draw a random number it gets
the least one, so that a power loss loses everything that was not synced.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack

from insync.metadata.partition import Partition
from insync.sansio import Message
from insync.sim.driver import ClusterDriver, InvalidOperationError, ObservedEvent, SentBatch, plan_cluster
from insync.sim.narration.narrator import MINOR_NOTES
from insync.sim.plans.plan import Latency
from insync.sim.run import World
from insync.wire.errors import ErrorCode

PENDING = "pending"
FIXED_LATENCY = Latency(base_us=1_000, jitter_us=0, spike_every=0, spike_us=0, local_us=100)


class LeastRandom(random.Random):
    """Every draw is the least possible: no jitter, nothing survives by luck."""

    def random(self) -> float:
        return 0.0


class PredictableWorld(World):
    def _rng(self, part: str) -> random.Random:
        return LeastRandom()


class ScenarioContext:
    """The cluster, once there is one, and the output; `answers` has the results of requests by label."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.failed = False
        self.batches: dict[str, SentBatch] = {}
        """What was produced, by the first value of each batch."""
        self.removed_safeguards = ExitStack()
        """They are restored when the scenario ends."""
        self.quiet = False
        self._driver: ClusterDriver | None = None

    def build(self, brokers: int, controllers: int, *, combined: bool) -> None:
        plan = plan_cluster(brokers, controllers, combined=combined, latency=FIXED_LATENCY, disk_us=(500, 500))
        self._driver = ClusterDriver(PredictableWorld(plan), LeastRandom(), self._print_event)

    @property
    def built(self) -> bool:
        return self._driver is not None

    @property
    def driver(self) -> ClusterDriver:
        if self._driver is None:
            raise InvalidOperationError("there is no cluster yet: begin with 'cluster brokers=3 controllers=1'")
        return self._driver

    @property
    def world(self) -> World:
        return self.driver.world

    @property
    def answers(self) -> dict[str, str]:
        return self.driver.answers

    def partition(self, name: str) -> Partition:
        return self.driver.partition(name)

    # --- output ------------------------------------------------------------------------------------------------------

    def print(self, text: str) -> None:
        self.out.append(f"    {text}")

    def fail(self, text: str) -> None:
        self.print(text)
        self.failed = True

    def _print_event(self, event: ObservedEvent) -> None:
        if not self.quiet and (event.note is None or event.note.kind not in MINOR_NOTES):
            self.print(f"{event.time_ms:>6} ms  {event.source}: {event.text}")

    def record_answer(self, label: str) -> Callable[[ErrorCode, Message | None], None]:
        """For the result of an operator's request: it is printed when it comes, and kept for `expect answer`."""
        self.answers[label] = PENDING

        def on_done(error: ErrorCode, _response: Message | None) -> None:
            self.answers[label] = error.name
            self.driver.report("operator", f"{label}: {'done' if error is ErrorCode.none else error.name}")

        return on_done

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)

    def wait_until(self, condition: Callable[[], bool], description: str) -> None:
        if not self.driver.wait_until(condition):
            self.fail(f"NEVER CAME TRUE: {description}")

    def close(self) -> None:
        self.removed_safeguards.close()
