"""Scenarios: a simulated cluster driven by hand, one step a line, for people to read and for golden tests.

    cluster brokers=3 controllers=1     the nodes 1..3 are brokers, 101.. controllers ("combined" makes 1..3 both)
    topic t replicas=1,2,3 min.insync.replicas=2
    produce t-0 A B acks=all            one batch; the answer is printed when it comes
    run 500                             let 500 ms pass
    until t-0 leader=2 isr=2,3          let time pass until it is so
    expect t-0 leader=2                 it has to be so now
    show t-0 / logs t-0                 where each replica stands / what each log holds

The other steps are in `scenario_faults` and `scenario_clients`, what can be expected in `scenario_values`. Lines that
begin with # are told along. Latency is fixed and nothing is random, so the text that comes out is always the same.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from insync.errors import InvariantError
from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.narration import picture
from insync.sim.plans.plan import TopicPlan
from insync.sim.scenario import client_steps, fault_steps
from insync.sim.scenario.stage import Stage, StepError
from insync.sim.scenario.steps import ids, options, perform, split_options, step, whole_number
from insync.sim.scenario.values import value

STEP_MODULES = (client_steps, fault_steps)
"""Besides this one; they declare their steps when they are imported."""

SETTLE_MS = 100
"""Until everybody knows that the cluster is complete, or follows in a new topic."""


class ScenarioError(Exception):
    """The text of a scenario is wrong; says where and what would be right."""


@dataclass(slots=True)
class Played:
    text: str
    ok: bool


def play(text: str, name: str = "scenario") -> Played:
    player = Player()
    try:
        for number, line in enumerate(text.splitlines(), 1):
            try:
                player.line(line.strip())
            except StepError as error:
                raise ScenarioError(f"{name}, line {number}: '{line.strip()}': {error}") from None
            if player.stage.failed:
                break
        player.finish()
    finally:
        player.stage.close()
    return Played("\n".join(player.stage.out), not player.stage.failed)


class Player:
    """Performs one step after the other on one stage."""

    def __init__(self) -> None:
        self.stage = Stage()
        self._violation = ""

    def line(self, text: str) -> None:
        if not text or text.startswith("#"):
            self.stage.out.append(text)
        elif self._violation:
            self._after_violation(text)
        else:
            self.step(text)

    def step(self, text: str) -> None:
        stage = self.stage
        stage.out.append(f"> {text}")
        perform(stage, text)
        self._look()

    def _look(self) -> None:
        violation = self.stage.world.violation if self.stage.built else None
        if violation is not None and not self._violation:
            self._violation = violation.property
            self.stage.say(f"VIOLATION {violation}")

    def _after_violation(self, text: str) -> None:
        """Time stands still now: it can be looked at, and has to have been expected."""
        words = text.split()
        if words[0] not in ("show", "logs", "expect"):
            self.stage.fail(f"nothing happens any more, because {self._violation} is violated: {text}")
            return
        self.stage.out.append(f"> {text}")
        if words[:2] != ["expect", "violation"]:
            perform(self.stage, text)
        elif words[2:] != [self._violation]:
            self.stage.fail(f"EXPECTED violation {' '.join(words[2:])}, found {self._violation}")
        else:
            self._violation = "expected"

    def finish(self) -> None:
        """A last look at every log; a violation that nobody expected is a failure."""
        stage = self.stage
        if stage.built and not stage.failed and not self._violation:
            with contextlib.suppress(InvariantError):
                stage.world.checker.finish()
            self._look()
        if self._violation not in ("", "expected"):
            stage.failed = True
        held = "" if stage.failed or self._violation else ", and every safety property held after every step"
        stage.out.append("FAILED" if stage.failed else f"ok: everything is as expected{held}")


# --- the cluster -----------------------------------------------------------------------------------------------------


@step("cluster [brokers=3] [controllers=1] [combined]")
def cluster(stage: Stage, words: list[str]) -> None:
    if stage.built:
        raise StepError("there is a cluster already")
    plain, given = split_options(words, ("brokers", "controllers"))
    if plain not in ([], ["combined"]):
        raise StepError(f"'{' '.join(plain)}' should be 'combined' or nothing")
    brokers = whole_number(given.get("brokers", "3"), "brokers")
    stage.quiet = True
    stage.build(brokers, whole_number(given.get("controllers", "1"), "controllers"), combined="combined" in plain)
    stage.wait(lambda: _unfenced(stage) == brokers, "all brokers are unfenced")
    stage.advance(SETTLE_MS)
    stage.observed.clear()
    stage.quiet = False


def _unfenced(stage: Stage) -> int:
    return sum(not broker.fenced for broker in stage.brokers().values())


@step("topic NAME replicas=BROKERS [CONFIG=VALUE...]")
def topic(stage: Stage, words: list[str]) -> None:
    """One topic with one partition on those brokers; the first leads it."""
    name, configs = words[0], options(words[1:])
    if "replicas" not in configs:
        raise StepError(f"where to? Write: topic {name} replicas=1,2,3")
    replicas = ids(configs.pop("replicas"))
    plan = TopicPlan(
        name=name,
        partitions=1,
        replication_factor=len(replicas),
        configs=tuple(configs.items()),
        replicas=tuple(stage.node_id(str(replica)) for replica in replicas),
    )
    stage.ask(stage.active_controller(), stage.world.operator.create_request(plan), stage.note_answer("topic"))
    stage.advance(SETTLE_MS)
    if stage.answers["topic"] != "none":
        raise StepError(f"the controller refuses it: {stage.answers['topic']}")
    stage.topics.append(name)


@step("without SAFEGUARD")
def without(stage: Stage, words: list[str]) -> None:
    """From here on the named safeguard is not there; `insync sim mutants` lists the names."""
    mutant = MUTANTS.get(words[0])
    if mutant is None:
        raise StepError(f"no safeguard can be removed as '{words[0]}'. Known: {', '.join(MUTANTS)}")
    stage.removed.enter_context(apply_mutant(mutant))
    stage.say(f"removed: {mutant.removes}")


# --- time and expectations -------------------------------------------------------------------------------------------


@step("run MS")
def run(stage: Stage, words: list[str]) -> None:
    stage.advance(whole_number(words[0], "the time in ms"))


@step("until SUBJECT NAME=VALUE")
def until(stage: Stage, words: list[str]) -> None:
    """Let time pass until it is so."""
    subject, wanted = _question(words)
    stage.wait(lambda: all(value(stage, subject, key) == text for key, text in wanted.items()), " ".join(words))
    if not stage.failed:
        stage.say(f"{stage.now:>6} ms  so it is")


@step("expect SUBJECT NAME=VALUE")
def expect(stage: Stage, words: list[str]) -> None:
    """It has to be so now. `expect noted KIND FIELD=VALUE`: some node noted that; `expect never KIND`: none did."""
    if words[0] == "violation":
        stage.fail(f"EXPECTED violation {words[1]}, and nothing is violated")
    elif words[0] in ("noted", "never"):
        _expect_note(stage, words[1], options(words[2:]), wanted=words[0] == "noted")
    else:
        subject, wanted = _question(words)
        for key, text in wanted.items():
            found = value(stage, subject, key)
            if found != text:
                stage.fail(f"EXPECTED {' '.join(subject)} {key}={text}, found {key}={found}")


def _question(words: list[str]) -> tuple[list[str], dict[str, str]]:
    subject = words[:2] if words[0] == "node" else words[:1]
    wanted = options(words[len(subject) :])
    if not wanted:
        raise StepError(f"what of {' '.join(subject)}? Write name=value")
    return subject, wanted


def _expect_note(stage: Stage, kind: str, fields: dict[str, str], *, wanted: bool) -> None:
    notes = [happening.note for happening in stage.observed if happening.note is not None]
    found = any(
        note.kind == kind and all(_plain(note.fields.get(name)) == text for name, text in fields.items())
        for note in notes
    )
    if found is not wanted:
        what = " ".join([kind, *(f"{name}={text}" for name, text in fields.items())])
        stage.fail(f"EXPECTED {'some' if wanted else 'no'} node to note {what}, and {'one' if found else 'none'} did")


def _plain(field: object) -> str:
    return ",".join(map(str, field)) if isinstance(field, tuple) else str(field).lower()


# --- looking ---------------------------------------------------------------------------------------------------------


@step("show PARTITION")
def show(stage: Stage, words: list[str]) -> None:
    for line in stage.picture(words[0]):
        stage.say(line)


@step("logs PARTITION")
def logs(stage: Stage, words: list[str]) -> None:
    partition = stage.partition(words[0])
    for broker in partition.replicas:
        stage.say(picture.log_line(stage.world.cluster, partition, broker))
