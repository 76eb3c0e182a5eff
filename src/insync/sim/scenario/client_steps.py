"""Steps of clients and operators. What each is told is printed when it comes, and kept for `expect answer`."""

from __future__ import annotations

from typing import Any

from insync.metadata.partition import NO_LEADER, Partition
from insync.properties.history import Acked, Failed, Fingerprint, ListedOffset, Read, Sent
from insync.sansio import Message
from insync.sim.plans.plan import Action
from insync.sim.scenario.stage import PENDING, Stage, StepError
from insync.sim.scenario.steps import ids, options, split_options, step, whole_number
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, list_offsets, produce
from insync.wire.types import ms

ACKS = {"all": -1, "1": 1, "0": 0}
PRODUCE_TIMEOUT_MS = 3_000
LATEST = -1


class SentBatch:
    """A batch that a scenario sent, kept so that it can be sent again."""

    __slots__ = ("acks", "data", "label", "op", "partition", "text")

    def __init__(self, op: int, partition: Partition, values: list[str], data: bytes, acks: int) -> None:
        self.op = op
        self.partition = partition
        self.label = values[0]
        self.text = " ".join(values)
        self.data = data
        self.acks = acks


# --- producing and reading -------------------------------------------------------------------------------------------


@step("produce PARTITION VALUE [VALUE...] [acks=all|1|0] [to=NODE] [id=PRODUCER] [seq=NUMBER] [for=MS]")
def produce_values(stage: Stage, words: list[str]) -> None:
    """One batch with those values, sent to the leader. The step takes 20 ms unless it says otherwise."""
    values, given = split_options(words[1:], ("acks", "to", "id", "seq", "for"))
    if not values or given.get("acks", "all") not in ACKS:
        raise StepError("give at least one value, and acks=all, acks=1 or acks=0")
    if values[0] in stage.batches:
        raise StepError(f"'{values[0]}' was produced before: values have to differ, or 'retry {values[0]}'")
    partition = stage.partition(words[0])
    data = _batch(values, given, stage.now)
    sent = SentBatch(len(stage.batches) + 1, partition, values, data, ACKS[given.get("acks", "all")])
    stage.batches[values[0]] = sent
    crc = batch.read_header(data).crc
    stage.world.history.append(
        Sent(sent.op, stage.world.engine.now, partition.key, sent.acks, len(values), crc, idempotent="id" in given)
    )
    _send(stage, sent, given)


def _batch(values: list[str], given: dict[str, str], now: int) -> bytes:
    """With an id it is an idempotent producer's, and numbered."""
    numbered = "id" in given
    data = batch.build(
        [batch.NewRecord(None, value.encode()) for value in values],
        timestamp_ms=now,
        producer_id=whole_number(given["id"], "id") if numbered else -1,
        producer_epoch=0 if numbered else -1,
        base_sequence=whole_number(given.get("seq", "0"), "seq") if numbered else -1,
    )
    return bytes(data)


@step("retry VALUE [to=NODE] [for=MS]")
def retry(stage: Stage, words: list[str]) -> None:
    """The very batch that began with that value, sent again, as a producer does that got no answer."""
    sent = stage.batches.get(words[0])
    if sent is None:
        raise StepError(f"'{words[0]}' was never produced. Produced: {', '.join(stage.batches) or 'nothing'}")
    _send(stage, sent, split_options(words[1:], ("to", "for"))[1])


def _send(stage: Stage, sent: SentBatch, given: dict[str, str]) -> None:
    node = stage.node_id(given["to"]) if "to" in given else leader_of(stage, sent.partition.name)
    part = produce.PartitionProduceData(index=sent.partition.index, records=sent.data)
    topic = produce.TopicProduceData(topic_id=sent.partition.topic_id, partition_data=(part,))
    request = produce.ProduceRequest(
        transactional_id=None, acks=sent.acks, timeout=ms(PRODUCE_TIMEOUT_MS), topic_data=(topic,)
    )
    stage.answers[sent.label] = PENDING
    stage.ask(node, request, lambda response, now: _produced(stage, sent, response, now), one_way=sent.acks == 0)
    stage.advance(whole_number(given.get("for", "20"), "for"))


def _produced(stage: Stage, sent: SentBatch, response: Message | None, now: int) -> None:
    answer: Any = None if response is None else response.responses[0].partition_responses[0]
    error = ErrorCode.network_exception if answer is None else answer.error_code
    stage.answers[sent.label] = error.name
    history = stage.world.history
    if answer is None or error is not ErrorCode.none:
        stage.tell("client", f"{sent.text} not acknowledged: {'no answer' if answer is None else error.name}")
        history.append(Failed(sent.op, now, error.name))
    else:
        stage.tell("client", f"{sent.text} acknowledged at offset {answer.base_offset}")
        history.append(Acked(sent.op, now, answer.base_offset))


@step("read PARTITION [OFFSET] [from=NODE]")
def read(stage: Stage, words: list[str]) -> None:
    """What a consumer gets to see from that offset on."""
    plain, given = split_options(words, ("from",))
    partition = stage.partition(plain[0])
    offset = whole_number(plain[1], "the offset") if plain[1:] else 0
    node = stage.node_id(given["from"]) if "from" in given else leader_of(stage, plain[0])
    started = stage.world.engine.now

    def on_response(response: Message | None, now: int) -> None:
        if response is None:
            return _told(stage, "read", "no answer")
        answer = response.responses[0].partitions[0]
        if answer.error_code is not ErrorCode.none:
            return _told(stage, "read", answer.error_code.name)
        data = answer.records or b""
        headers = [header for _, header in batch.iter_headers(data)]
        prints = tuple(Fingerprint(h.base_offset, h.last_offset, h.leader_epoch, h.crc) for h in headers)
        stage.world.history.append(Read(started, now, partition.key, offset, answer.high_watermark, prints))
        values = [r.value.decode() for at, _ in batch.iter_headers(data) for r in batch.records(data, at) if r.value]
        return _told(stage, "read", ",".join(values) or "nothing")

    stage.ask(node, _fetch_request(partition, offset), on_response)
    stage.advance(20)


@step("end PARTITION [from=NODE]")
def end(stage: Stage, words: list[str]) -> None:
    """The end offset that a consumer is told (ListOffsets, latest)."""
    plain, given = split_options(words, ("from",))
    partition = stage.partition(plain[0])
    node = stage.node_id(given["from"]) if "from" in given else leader_of(stage, plain[0])
    started = stage.world.engine.now
    line = list_offsets.ListOffsetsPartition(partition_index=partition.index, current_leader_epoch=-1, timestamp=LATEST)
    topic = list_offsets.ListOffsetsTopic(name=partition.topic, partitions=(line,))
    request = list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,), timeout=ms(500))

    def on_response(response: Message | None, now: int) -> None:
        answer = None if response is None else response.topics[0].partitions[0]
        if answer is None or answer.error_code is not ErrorCode.none:
            return _told(stage, "end", "no answer" if answer is None else answer.error_code.name)
        stage.world.history.append(ListedOffset(started, now, partition.key, answer.offset))
        return _told(stage, "end", str(answer.offset))

    stage.ask(node, request, on_response)
    stage.advance(20)


def leader_of(stage: Stage, name: str) -> int:
    leader = stage.partition(name).leader
    if leader == NO_LEADER:
        raise StepError(f"{name} has no leader now: name a node with to=NODE or from=NODE")
    return leader


def _told(stage: Stage, what: str, told: str) -> None:
    stage.answers[what] = told
    stage.tell("client", f"{what}: {told}")


def _fetch_request(partition: Partition, offset: int) -> Message:
    line = fetch.FetchPartition(
        partition=partition.index,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=100_000,
    )
    return fetch.FetchRequest(
        max_wait=ms(0),
        min_bytes=0,
        max_bytes=100_000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(fetch.FetchTopic(topic_id=partition.topic_id, partitions=(line,)),),
        forgotten_topics_data=(),
    )


# --- operating -------------------------------------------------------------------------------------------------------


@step("reassign PARTITION BROKERS [for=MS]")
def reassign(stage: Stage, words: list[str]) -> None:
    stage.partition(words[0])
    _operate(stage, "reassign", words[2:], Action(at_ms=0, kind="reassign", target=words[0], value=ids(words[1])))


@step("cancel PARTITION [for=MS]")
def cancel(stage: Stage, words: list[str]) -> None:
    """Take a reassignment back."""
    stage.partition(words[0])
    _operate(stage, "cancel", words[1:], Action(at_ms=0, kind="cancel_reassign", target=words[0]))


@step("elect PARTITION preferred|unclean [for=MS]")
def elect(stage: Stage, words: list[str]) -> None:
    stage.partition(words[0])
    if words[1] not in ("preferred", "unclean"):
        raise StepError(f"an election is 'preferred' or 'unclean', not '{words[1]}'")
    _operate(stage, "elect", words[2:], Action(at_ms=0, kind=f"elect_{words[1]}", target=words[0]))


@step("config TOPIC NAME=VALUE")
def config(stage: Stage, words: list[str]) -> None:
    for name, value in options(words[1:]).items():
        _operate(stage, "config", [], Action(at_ms=0, kind="set_config", target=words[0], value=(name, value)))


def _operate(stage: Stage, label: str, more: list[str], action: Action) -> None:
    """Ask the active controller once."""
    given = split_options(more, ("for",))[1]
    stage.ask(stage.active_controller(), stage.world.operator.request(action), stage.note_answer(label))
    stage.advance(whole_number(given.get("for", "20"), "for"))
