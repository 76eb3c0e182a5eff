"""Plays scenarios: a simulated cluster driven by hand, one step per line, for people to read and for golden tests.

    cluster brokers=3 controllers=1     nodes 1..3 are brokers, 101.. controllers ("combined" makes 1..3 both)
    topic t replicas=1,2,3 min.insync.replicas=2
    produce t-0 A B acks=all            one batch; the result is printed when it comes
    run 500                             let 500 ms pass
    until t-0 leader=2 isr=2,3          let time pass until it is true
    expect t-0 leader=2                 it has to be true now
    show t-0 / logs t-0                 the state of each replica / the records of each log

The other steps are in `cluster_steps`, `client_steps` and `fault_steps`, the conditions in `conditions`. Lines that
begin with # are copied to the output. Latency is fixed and nothing is random, so the output is always the same.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from insync.errors import InvariantError
from insync.sim.driver import InvalidOperationError
from insync.sim.scenario import client_steps, cluster_steps, fault_steps
from insync.sim.scenario.context import ScenarioContext
from insync.sim.scenario.steps import perform_step

STEP_MODULES = (cluster_steps, client_steps, fault_steps)
"""They declare their steps when they are imported."""

EXPECTED = "expected"


class ScenarioError(Exception):
    """The text of a scenario is wrong; the message says where, and what would be right."""


@dataclass(slots=True)
class Played:
    text: str
    ok: bool


def play(text: str, name: str = "scenario") -> Played:
    player = Player()
    try:
        for number, line in enumerate(text.splitlines(), 1):
            try:
                player.play_line(line.strip())
            except InvalidOperationError as error:
                raise ScenarioError(f"{name}, line {number}: '{line.strip()}': {error}") from None
            if player.context.failed:
                break
        player.finish()
    finally:
        player.context.close()
    return Played("\n".join(player.context.out), not player.context.failed)


class Player:
    """Performs one step after the other on one cluster."""

    def __init__(self) -> None:
        self.context = ScenarioContext()
        self._violation = ""
        """The property that was violated; `EXPECTED` once the scenario has said that it expects this."""

    def play_line(self, text: str) -> None:
        if not text or text.startswith("#"):
            self.context.out.append(text)
        elif self._violation:
            self._play_after_violation(text)
        else:
            self.context.out.append(f"> {text}")
            perform_step(self.context, text)
            self._report_violation()

    def _report_violation(self) -> None:
        violation = self.context.world.violation if self.context.built else None
        if violation is not None and not self._violation:
            self._violation = violation.property
            self.context.print(f"VIOLATION {violation}")

    def _play_after_violation(self, text: str) -> None:
        """The run has ended: only inspection is possible, and the violation has to be expected."""
        words = text.split()
        if words[0] not in ("show", "logs", "expect"):
            self.context.fail(f"the run has ended, because {self._violation} is violated: {text}")
            return
        self.context.out.append(f"> {text}")
        if words[:2] != ["expect", "violation"]:
            perform_step(self.context, text)
        elif words[2:] != [self._violation]:
            self.context.fail(f"EXPECTED violation {' '.join(words[2:])}, found {self._violation}")
        else:
            self._violation = EXPECTED

    def finish(self) -> None:
        """Run the final checks; an unexpected violation is a failure."""
        context = self.context
        if context.built and not context.failed and not self._violation:
            with contextlib.suppress(InvariantError):
                context.world.checker.finish()
            self._report_violation()
        if self._violation not in ("", EXPECTED):
            context.failed = True
        held = "" if context.failed or self._violation else ", and every safety property held after every step"
        context.out.append("FAILED" if context.failed else f"ok: everything is as expected{held}")
