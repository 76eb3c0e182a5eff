"""Steps of clients and operators. Results are printed when they come, and kept for `expect answer`."""

from __future__ import annotations

from insync.sim.driver import FetchResult, InvalidOperationError, SentBatch
from insync.sim.plans.plan import Action
from insync.sim.scenario.context import PENDING, ScenarioContext
from insync.sim.scenario.steps import parse_ids, parse_number, parse_options, split_options, step
from insync.wire.errors import ErrorCode

ACKS = {"all": -1, "1": 1, "0": 0}

# --- producing and reading -------------------------------------------------------------------------------------------


@step("produce PARTITION VALUE [VALUE...] [acks=all|1|0] [to=NODE] [id=PRODUCER] [seq=NUMBER] [for=MS]")
def produce_values(context: ScenarioContext, words: list[str]) -> None:
    """One batch with those values, sent to the leader. The step takes 20 ms unless it says otherwise."""
    values, options = split_options(words[1:], ("acks", "to", "id", "seq", "for"))
    if not values or options.get("acks", "all") not in ACKS:
        raise InvalidOperationError("give at least one value, and acks=all, acks=1 or acks=0")
    if values[0] in context.batches:
        raise InvalidOperationError(f"'{values[0]}' was produced before: values have to differ, or 'retry {values[0]}'")
    sent = context.driver.new_batch(
        context.partition(words[0]),
        [value.encode() for value in values],
        acks=ACKS[options.get("acks", "all")],
        producer_id=parse_number(options["id"], "id") if "id" in options else -1,
        sequence=parse_number(options.get("seq", "0"), "seq"),
    )
    context.batches[values[0]] = sent
    _send(context, values[0], sent, options)


@step("retry VALUE [to=NODE] [for=MS]")
def retry(context: ScenarioContext, words: list[str]) -> None:
    """Send the batch that begins with that value again, byte for byte, as a producer does after a timeout."""
    sent = context.batches.get(words[0])
    if sent is None:
        raise InvalidOperationError(
            f"'{words[0]}' was never produced. Produced: {', '.join(context.batches) or 'nothing'}"
        )
    _send(context, words[0], sent, split_options(words[1:], ("to", "for"))[1])


def _send(context: ScenarioContext, label: str, sent: SentBatch, options: dict[str, str]) -> None:
    driver = context.driver
    node = driver.node_id(options["to"]) if "to" in options else driver.leader_of(sent.partition.name)
    values = b" ".join(sent.values).decode()
    context.answers[label] = PENDING

    def on_done(sent: SentBatch) -> None:
        context.answers[label] = sent.error.name
        if sent.error is ErrorCode.none:
            driver.report("client", f"{values} acknowledged at offset {sent.offset}")
        else:
            reason = sent.error.name if sent.response_received else "no answer"
            driver.report("client", f"{values} not acknowledged: {reason}")

    driver.send_batch(sent, node, on_done)
    context.advance(parse_number(options.get("for", "20"), "for"))


@step("read PARTITION [OFFSET] [from=NODE]")
def read(context: ScenarioContext, words: list[str]) -> None:
    """What a consumer reads from that offset on."""
    plain, options = split_options(words, ("from",))
    partition = context.partition(plain[0])
    offset = parse_number(plain[1], "the offset") if plain[1:] else 0

    def on_done(result: FetchResult) -> None:
        if result.error is ErrorCode.none:
            _record(context, "read", ",".join(record.value.decode() for record in result.records) or "nothing")
        else:
            _record(context, "read", "no answer" if result.error is None else result.error.name)

    context.driver.fetch(partition, offset, _reader(context, plain[0], options), on_done)
    context.advance(20)


@step("end PARTITION [from=NODE]")
def end(context: ScenarioContext, words: list[str]) -> None:
    """The end offset that a consumer gets (ListOffsets, latest)."""
    plain, options = split_options(words, ("from",))

    def on_done(error: ErrorCode | None, offset: int) -> None:
        failure = "no answer" if error is None else error.name
        _record(context, "end", str(offset) if error is ErrorCode.none else failure)

    context.driver.list_end_offset(context.partition(plain[0]), _reader(context, plain[0], options), on_done)
    context.advance(20)


def _reader(context: ScenarioContext, name: str, options: dict[str, str]) -> int:
    return context.driver.node_id(options["from"]) if "from" in options else context.driver.leader_of(name)


def _record(context: ScenarioContext, label: str, result: str) -> None:
    context.answers[label] = result
    context.driver.report("client", f"{label}: {result}")


# --- operating -------------------------------------------------------------------------------------------------------


@step("reassign PARTITION BROKERS [for=MS]")
def reassign(context: ScenarioContext, words: list[str]) -> None:
    context.partition(words[0])
    action = Action(at_ms=0, kind="reassign", target=words[0], value=parse_ids(words[1]))
    _operate(context, "reassign", words[2:], action)


@step("cancel PARTITION [for=MS]")
def cancel(context: ScenarioContext, words: list[str]) -> None:
    """Cancel a reassignment."""
    context.partition(words[0])
    _operate(context, "cancel", words[1:], Action(at_ms=0, kind="cancel_reassign", target=words[0]))


@step("elect PARTITION preferred|unclean [for=MS]")
def elect(context: ScenarioContext, words: list[str]) -> None:
    context.partition(words[0])
    if words[1] not in ("preferred", "unclean"):
        raise InvalidOperationError(f"an election is 'preferred' or 'unclean', not '{words[1]}'")
    _operate(context, "elect", words[2:], Action(at_ms=0, kind=f"elect_{words[1]}", target=words[0]))


@step("config TOPIC NAME=VALUE")
def config(context: ScenarioContext, words: list[str]) -> None:
    for name, value in parse_options(words[1:]).items():
        action = Action(at_ms=0, kind="set_config", target=words[0], value=(name, value))
        _operate(context, "config", [], action)


def _operate(context: ScenarioContext, label: str, words: list[str], action: Action) -> None:
    options = split_options(words, ("for",))[1]
    context.driver.carry_out(action, context.record_answer(label))
    context.advance(parse_number(options.get("for", "20"), "for"))
