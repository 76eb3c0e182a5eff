"""One broker and controller on a simulated disk that receives frames as from a server and answers at once.

Time passes only by `advance`. Requests of the node to itself are delivered; those to other voters wait in `asked` for a
response, and all others are lost.
"""

from __future__ import annotations

from collections import deque
from random import Random
from uuid import UUID

from insync.controller.config import ControllerConfig
from insync.groups.config import GroupConfig
from insync.metadata.broker import Endpoint
from insync.node.config import AuthorizerConfig, NodeConfig
from insync.node.node import Node
from insync.node.node_view import NodeTopicNames
from insync.sansio import (
    Client,
    Effect,
    Event,
    Message,
    Reply,
    Request,
    Response,
    Send,
    Stop,
    Sync,
    Synced,
    Timer,
    WriteFile,
)
from insync.sim.engine.disk import SimDisk
from insync.storage.disk import write_atomically
from insync.wire.versions.context import RequestContext
from insync.wire.versions.translator import VersionTranslator

CLUSTER = "fuzz"
LOG = "data"


class OneNode:
    """`unanswered` has the requests that are parked; `stop` is the effect with which the node ended, if it did."""

    def __init__(self, disk: SimDisk, voters: tuple[int, ...] = (1,)) -> None:
        self.now = 1_000
        self.disk = disk
        self.voters = voters
        self.asked: list[Send] = []
        self.ignored: dict[int, None] = {}
        """Tokens of requests whose connection has ended."""
        self.node = Node(_config(voters), disk, Random(1), self.now)
        self.translator = VersionTranslator(NodeTopicNames(self.node))
        self.stop: Stop | None = None
        self.unanswered: dict[int, RequestContext] = {}
        self.answers: list[bytes] = []
        self._sends: dict[int, Send] = {}
        self._queue: deque[Event] = deque()
        self._tokens = 0
        self._carry_out(self.node.start(self.now))
        self._run()

    def receive(self, frame: bytes) -> None:
        """A client's frame; raises MalformedFrameError if a server would close the connection."""
        context = self.translator.receive(frame)
        if context.request is None:
            self._answer(context, None)
            return
        self._tokens += 1
        self.unanswered[self._tokens] = context
        client = Client("c", "host", context.header.api_version)
        self.deliver(Request(self._tokens, context.request, client))

    def deliver(self, event: Event) -> None:
        self._queue.append(event)
        self._run()

    def advance(self, by_ms: int) -> None:
        end = self.now + by_ms
        while self.stop is None:
            at = self.node.next_deadline()
            if at is None or at > end:
                break
            self.now = max(self.now + 1, at)  # a deadline that is asked for again at once would stop time
            self.deliver(Timer())
        self.now = max(self.now, end)

    def _run(self) -> None:
        while self._queue and self.stop is None:
            self._carry_out(self.node.step(self._queue.popleft(), self.now))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                self._carry_out_reply(effect)
            elif isinstance(effect, Send):
                self._send(effect)
            elif isinstance(effect, Sync):
                effect.job.run()
                self._queue.append(Synced(effect))
            elif isinstance(effect, WriteFile):
                write_atomically(self.disk, effect.path, effect.data)
            elif isinstance(effect, Stop):
                self.stop = effect

    def _carry_out_reply(self, reply: Reply) -> None:
        send = self._sends.pop(reply.token, None)
        if reply.token in self.ignored:
            del self.ignored[reply.token]
        elif send is not None:
            self._queue.append(Response(send, reply.response))
        else:
            context = self.unanswered.pop(reply.token)  # a second answer to one request is a KeyError
            if reply.response is not None:
                self._answer(context, reply.response)

    def _answer(self, context: RequestContext, response: Message | None) -> None:
        self.answers.append(b"".join(self.translator.encode_response(context, response)))

    def _send(self, send: Send) -> None:
        if send.peer != self.node.id and send.peer in self.voters:
            self.asked.append(send)
            return
        if send.peer != self.node.id:
            self._queue.append(Response(send, None))
            return
        self._tokens += 1
        self._sends[self._tokens] = send
        self._queue.append(Request(self._tokens, send.request))


def _config(voters: tuple[int, ...]) -> NodeConfig:
    return NodeConfig(
        node_id=1,
        cluster_id=CLUSTER,
        directory_id=UUID(int=1),
        voters=voters,
        endpoints=(Endpoint(name="PLAINTEXT", host="host", port=9092),),
        authorizer=AuthorizerConfig(super_users=("User:ANONYMOUS",)),  # so that ACLs can be created
        controller=ControllerConfig(
            cluster_id=CLUSTER, rebalance_interval_ms=0, default_replication_factor=1, session_timeout_ms=60_000
        ),
        groups=GroupConfig(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=10),
        heartbeat_interval_ms=15_000,
        flush_check_interval_ms=10_000,
        hwm_checkpoint_interval_ms=20_000,
        cleaner_interval_ms=20_000,
    )
