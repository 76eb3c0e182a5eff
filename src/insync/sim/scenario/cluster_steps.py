"""Steps that build the cluster, let time pass, and compare it with what is expected."""

from __future__ import annotations

from insync.sim.driver import PROPAGATION_MS, InvalidOperationError
from insync.sim.mutants.catalogue import MUTANTS, apply_mutant
from insync.sim.narration import picture
from insync.sim.plans.plan import TopicPlan
from insync.sim.scenario.conditions import Condition, parse_condition
from insync.sim.scenario.context import ScenarioContext
from insync.sim.scenario.steps import parse_ids, parse_number, parse_options, split_options, step

# --- the cluster -----------------------------------------------------------------------------------------------------


@step("cluster [brokers=3] [controllers=1] [combined]")
def cluster(context: ScenarioContext, words: list[str]) -> None:
    if context.built:
        raise InvalidOperationError("there is a cluster already")
    plain, options = split_options(words, ("brokers", "controllers"))
    if plain not in ([], ["combined"]):
        raise InvalidOperationError(f"'{' '.join(plain)}' should be 'combined' or nothing")
    brokers = parse_number(options.get("brokers", "3"), "brokers")
    controllers = parse_number(options.get("controllers", "1"), "controllers")
    context.build(brokers, controllers, combined="combined" in plain)
    context.quiet = True
    if not context.driver.start():
        context.fail("NEVER CAME TRUE: all brokers are unfenced")
    context.driver.observed.clear()
    context.quiet = False


@step("topic NAME replicas=BROKERS [CONFIG=VALUE...]")
def topic(context: ScenarioContext, words: list[str]) -> None:
    """Create a topic with one partition on those brokers; the first of them leads it."""
    name, configs = words[0], parse_options(words[1:])
    if "replicas" not in configs:
        raise InvalidOperationError(f"the replicas are missing. Write: topic {name} replicas=1,2,3")
    replicas = parse_ids(configs.pop("replicas"))
    plan = TopicPlan(
        name=name,
        partitions=1,
        replication_factor=len(replicas),
        configs=tuple(configs.items()),
        replicas=tuple(context.driver.node_id(str(replica)) for replica in replicas),
    )
    context.driver.create_topic(plan, context.record_answer("topic"))
    context.advance(PROPAGATION_MS)
    if context.answers["topic"] != "none":
        raise InvalidOperationError(f"the controller refuses it: {context.answers['topic']}")
    context.driver.topics[name] = 1


@step("without SAFEGUARD")
def without(context: ScenarioContext, words: list[str]) -> None:
    """Remove a safeguard for the rest of the scenario; `insync sim mutants` lists the names."""
    mutant = MUTANTS.get(words[0])
    if mutant is None:
        raise InvalidOperationError(f"there is no safeguard '{words[0]}' to remove. Known: {', '.join(MUTANTS)}")
    context.removed_safeguards.enter_context(apply_mutant(mutant))
    context.print(f"removed: {mutant.removes}")


# --- time and expectations -------------------------------------------------------------------------------------------


@step("run MS")
def run(context: ScenarioContext, words: list[str]) -> None:
    context.advance(parse_number(words[0], "the time in ms"))


@step("until SUBJECT NAME=VALUE")
def until(context: ScenarioContext, words: list[str]) -> None:
    """Let time pass until it is true."""
    condition = parse_condition(words)
    context.wait_until(lambda: condition.holds(context.driver), " ".join(words))
    if not context.failed:
        context.print(f"{context.driver.now_ms:>6} ms  condition met")


@step("expect SUBJECT NAME=VALUE")
def expect(context: ScenarioContext, words: list[str]) -> None:
    """It has to be true now. `expect noted KIND FIELD=VALUE`: a node noted that; `expect never KIND`: none did."""
    if words[0] == "violation":
        context.fail(f"EXPECTED violation {words[1]}, and nothing is violated")
    elif words[0] in ("noted", "never"):
        _expect_note(context, words[1], parse_options(words[2:]), wanted=words[0] == "noted")
    else:
        _expect_values(context, parse_condition(words))


def _expect_values(context: ScenarioContext, condition: Condition) -> None:
    for name, wanted, actual in condition.differences(context.driver):
        context.fail(f"EXPECTED {condition.subject} {name}={wanted}, found {name}={actual}")


def _expect_note(context: ScenarioContext, kind: str, fields: dict[str, str], *, wanted: bool) -> None:
    notes = [event.note for event in context.driver.observed if event.note is not None]
    noted = any(
        note.kind == kind and all(_as_text(note.fields.get(name)) == text for name, text in fields.items())
        for note in notes
    )
    if noted is not wanted:
        what = " ".join([kind, *(f"{name}={text}" for name, text in fields.items())])
        context.fail(f"EXPECTED {'some' if wanted else 'no'} node to note {what}, and {'one' if noted else 'none'} did")


def _as_text(field: object) -> str:
    return ",".join(map(str, field)) if isinstance(field, tuple) else str(field).lower()


# --- output ----------------------------------------------------------------------------------------------------------


@step("show PARTITION")
def show(context: ScenarioContext, words: list[str]) -> None:
    for line in picture.partition_lines(context.world.cluster, context.partition(words[0])):
        context.print(line)


@step("logs PARTITION")
def logs(context: ScenarioContext, words: list[str]) -> None:
    partition = context.partition(words[0])
    for broker in partition.replicas:
        context.print(picture.log_line(context.world.cluster, partition, broker))
