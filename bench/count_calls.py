"""How many functions and files of insync one request passes through: the walks of ARCHITECTURE.md, counted.

    python bench/count_calls.py [--list WALK]

The first three walks run on three nodes without sockets: from the bytes of a request to the bytes of its response,
with all that happens on followers and the controller in between. The Spark walk calls the stream reader and the sink
as Spark does, against one real broker, and counts the side of Spark only. A function counts once, however often it is
called; what the compiled code of numba and Lua calls is not seen.
"""

from __future__ import annotations

import argparse
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from common import Rig, produce_request

import insync
from insync.node.node_view import NodeTopicNames
from insync.sansio import Effect, Event, Request, Response, Send
from insync.sim.engine.disk import SimDisk
from insync.wire import codec
from insync.wire.messages import alter_partition, fetch
from insync.wire.versions.translator import VersionTranslator

SOURCE = str(Path(insync.__file__).parent)
SIMULATOR = f"{SOURCE}/sim/"  # the disks of the nodes
LAG_MS = 60_000
START_MS = 5_000


class Calls:
    """Functions of insync that were called while it recorded."""

    def __init__(self) -> None:
        self.functions: dict[CodeType, None] = {}

    @contextmanager
    def record(self) -> Iterator[None]:
        """Also in threads that are started meanwhile."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        file = code.co_filename
        if event == "call" and file.startswith(SOURCE) and not file.startswith(SIMULATOR) and code.co_name[0] != "<":
            self.functions[code] = None

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(code.co_filename.removeprefix(SOURCE).lstrip("/") for code in self.functions))

    def names(self) -> list[str]:
        return [f"{code.co_filename.removeprefix(SOURCE).lstrip('/')}: {code.co_qualname}" for code in self.functions]


class RecordingRig(Rig):
    """Three nodes. Recording starts with the step that `starts` accepts, and ends when nothing is under way."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.starts: Callable[[Event, list[Effect]], bool] = lambda event, effects: False
        self.recording = False
        super().__init__([SimDisk() for _ in range(3)])

    def step(self, node_id: int, event: Event) -> list[Effect]:
        step_calls = Calls()
        with step_calls.record():
            effects = super().step(node_id, event)
        self.recording = self.recording or self.starts(event, effects)
        if self.recording:
            self.calls.functions |= step_calls.functions
        return effects

    def deliver_all(self) -> None:
        super().deliver_all()
        self.recording = False


def count_produce() -> Calls:
    """From the bytes of the request to the bytes of the response, the fetches of two followers included."""
    calls, rig, topic_id = _rig_with_topic()
    translator = VersionTranslator(NodeTopicNames(rig.nodes[1]))
    frame = codec.encode_request(produce_request(topic_id, acks=-1), 7, "client")
    with calls.record():
        context = translator.receive(frame)
    rig.starts = lambda event, effects: isinstance(event, Request) and event.request is context.request
    token = rig.ask(1, context.request)
    rig.deliver_all()
    with calls.record():
        translator.encode_response(context, rig.answers[token])
    return calls


def count_follower_fetch() -> Calls:
    """From the arrival of a response with records at the follower to that of the fetch which follows at the leader."""
    calls, rig, topic_id = _rig_with_topic(replicas=(1, 2))
    rig.starts = lambda event, effects: isinstance(event, Response) and _has_records(event.response)
    rig.ask(1, produce_request(topic_id, acks=1))
    rig.deliver_all()
    return calls


def count_isr_change() -> Calls:
    """A broker that was paused catches up: from the leader's proposal to the new ISR in the image of every broker."""
    calls, rig, topic_id = _rig_with_topic()
    rig.paused.add(3)
    rig.advance(LAG_MS)
    rig.ask(1, produce_request(topic_id, acks=1))
    rig.resume(3)
    rig.starts = lambda event, effects: any(
        isinstance(effect, Send) and isinstance(effect.request, alter_partition.AlterPartitionRequest)
        for effect in effects
    )
    rig.advance(LAG_MS)
    return calls


def count_spark_batch() -> Calls:
    """Plan a micro-batch of a thousand records, read and write it, called as Spark calls it: driver and tasks."""
    import pyarrow as pa

    from insync.cluster.cluster import Cluster
    from insync.spark.executor import write_rows
    from insync.spark.sink.fence import Fence
    from insync.spark.sink.options import read_sink_options
    from insync.spark.source_options import read_source_options
    from insync.spark.stream_reader import StreamReader

    calls = Calls()
    with Cluster(brokers=1, topics=["in", "out"]) as cluster:
        servers = {"kafka.bootstrap.servers": cluster.bootstrap}
        rows = pa.RecordBatch.from_pydict({"value": [b"%d" % number for number in range(1_000)]})
        write_rows(iter([rows]), read_sink_options({**servers, "topic": "in"}), Fence("first", 0), 0)
        options = {**servers, "subscribe": "in", "startingOffsets": "earliest"}

        def run_batch(query: str) -> None:
            reader = StreamReader(read_source_options(options, streaming=True), ("value",))
            start = reader.initialOffset()
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            sink = read_sink_options({**servers, "topic": "out"})
            for number, task in enumerate(reader.partitions(start, end)):
                write_rows(reader.read(task), sink, Fence(query, 0), number)
            reader.commit(end)
            reader.stop()

        run_batch("second")
        with calls.record():
            run_batch("third")
    return calls


def _rig_with_topic(replicas: tuple[int, ...] = (1, 2, 3)) -> tuple[Calls, RecordingRig, Any]:
    """A topic that has records already: what happens only once is not counted."""
    calls = Calls()
    rig = RecordingRig(calls)
    rig.advance(START_MS)
    topic_id = rig.create_topic("orders", replicas).topic_id
    for _ in range(3):
        rig.ask(1, produce_request(topic_id, acks=-1))
        rig.advance(START_MS)
    return calls, rig, topic_id


def _has_records(response: Any) -> bool:
    return isinstance(response, fetch.FetchResponse) and any(
        partition.records for topic in response.responses for partition in topic.partitions
    )


WALKS: dict[str, Callable[[], Calls]] = {
    "acks=all produce": count_produce,
    "follower fetch": count_follower_fetch,
    "ISR change": count_isr_change,
    "Spark micro-batch": count_spark_batch,
}


def count_walks() -> dict[str, tuple[int, int]]:
    """Walk -> (functions, files)."""
    counts: dict[str, tuple[int, int]] = {}
    for name, count in WALKS.items():
        calls = count()
        if not calls.functions:
            raise SystemExit(f"{name}: nothing was recorded")
        counts[name] = (len(calls.functions), len(calls.files))
    return counts


def read_table(document: str) -> dict[str, tuple[int, int]]:
    """The counts that ARCHITECTURE.md shows."""
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (\d+) \|$", document, re.MULTILINE)
    return {name: (int(functions), int(files)) for name, functions, files in rows if name in WALKS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="WALK", choices=WALKS, help="print the functions of one walk")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(WALKS[arguments.list]().names()))
        return 0
    print("| walk | functions | files |\n|---|---|---|")
    for name, (functions, files) in count_walks().items():
        print(f"| {name} | {functions} | {files} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
