"""What a frame costs: Produce and Fetch, requests in and answers out, by hand and with kio.

"ours" is everything between a connection and the node: header, version, translation, bytes. "kio" is kio's part
alone, of the same message in the same version: its reader for requests (which trusts its input), its writer for answers
(which wants them in the asked version already).
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kio.schema.fetch.v11 import request as fetch11
from kio.schema.produce.v9 import request as produce9
from kio.serial import entity_reader

from insync.wire import codec, entities
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, produce
from insync.wire.types import NO_DURATION, ms
from insync.wire.versions.translator import VersionTranslator

TOPIC = UUID(int=77)
RECORDS = bytes(16 * 1024)


class OneTopic:
    def id_of(self, name: str) -> UUID | None:
        return TOPIC if name == "topic" else None

    def name_of(self, topic_id: UUID) -> str | None:
        return "topic" if topic_id == TOPIC else None


def main() -> None:
    translator = VersionTranslator(OneTopic())
    print(f"{'':34}{'translator us':>10}{'kio us':>10}{'ratio':>8}")
    for count in (1, 10, 100):
        for name, asked, answer in (
            ("Produce v9 ", produce_by_name(count), produced(count)),
            ("Produce v13", produce_by_id(count), produced(count)),
            ("Fetch v11  ", fetch_by_name(count), fetched(count)),
            ("Fetch v17  ", fetch_by_id(count), fetched(count)),
        ):
            compare(translator, f"{name} x {count:3}", asked, answer)


def compare(translator: VersionTranslator, name: str, asked: Any, answer: Any) -> None:
    frame = codec.encode_request(asked, 1, "bench")
    body = entities.encode(asked)
    context = translator.receive(frame)
    downgraded = translator.downgrade(context, answer)
    read = entity_reader(type(asked))
    line(f"{name} request", lambda: translator.receive(frame), lambda: read(body, 0))
    line(f"{name} answer", lambda: translator.encode_response(context, answer), lambda: entities.encode(downgraded))


def line(name: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    a, b = best(ours), best(theirs)
    print(f"{name:34}{a:10.2f}{b:10.2f}{a / b:8.2f}")


def best(call: Callable[[], Any]) -> float:
    """The best of a few rounds: the others tell of the neighbours."""
    once = min(timeit.repeat(call, number=1, repeat=3))
    number = max(1, int(0.01 / once))
    return min(timeit.repeat(call, number=number, repeat=7)) / number * 1e6


# --- messages ---


def produce_by_name(count: int) -> Any:
    data = tuple(produce9.PartitionProduceData(index=i, records=RECORDS) for i in range(count))
    topic = produce9.TopicProduceData(name="topic", partition_data=data)
    return produce9.ProduceRequest(acks=-1, timeout=ms(30_000), topic_data=(topic,))


def produce_by_id(count: int) -> Any:
    data = tuple(produce.PartitionProduceData(index=i, records=RECORDS) for i in range(count))
    topic = produce.TopicProduceData(topic_id=TOPIC, partition_data=data)
    return produce.ProduceRequest(acks=-1, timeout=ms(30_000), topic_data=(topic,))


def produced(count: int) -> Any:
    lines = tuple(
        produce.PartitionProduceResponse(
            index=i, error_code=ErrorCode.none, base_offset=1_000, log_start_offset=0, record_errors=()
        )
        for i in range(count)
    )
    topic = produce.TopicProduceResponse(topic_id=TOPIC, partition_responses=lines)
    return produce.ProduceResponse(responses=(topic,), throttle_time=NO_DURATION)


def fetch_by_name(count: int) -> Any:
    asked = tuple(
        fetch11.FetchPartition(partition=i, fetch_offset=1_000, partition_max_bytes=1 << 20) for i in range(count)
    )
    topics = (fetch11.FetchTopic(topic="topic", partitions=asked),)
    return fetch11.FetchRequest(replica_id=-1, max_wait=ms(500), min_bytes=1, topics=topics, forgotten_topics_data=())


def fetch_by_id(count: int) -> Any:
    asked = tuple(
        fetch.FetchPartition(partition=i, fetch_offset=1_000, partition_max_bytes=1 << 20) for i in range(count)
    )
    topics = (fetch.FetchTopic(topic_id=TOPIC, partitions=asked),)
    return fetch.FetchRequest(max_wait=ms(500), min_bytes=1, topics=topics, forgotten_topics_data=())


def fetched(count: int) -> Any:
    lines = tuple(
        fetch.PartitionData(
            partition_index=i,
            error_code=ErrorCode.none,
            high_watermark=2_000,
            last_stable_offset=2_000,
            log_start_offset=0,
            aborted_transactions=(),
            records=RECORDS,
        )
        for i in range(count)
    )
    topic = fetch.FetchableTopicResponse(topic_id=TOPIC, partitions=lines)
    return fetch.FetchResponse(throttle_time=NO_DURATION, error_code=ErrorCode.none, responses=(topic,))


if __name__ == "__main__":
    main()
