"""A broker's life: registered, fenced, running, shutting down (B1, B3, B5, B7).

A broker starts fenced. It registers, which gives this uptime its broker epoch (B1), catches up with the metadata log to
its own registration, and asks by heartbeat to be unfenced (B3). A controlled shutdown asks by heartbeat to be let go,
and stops when the controller says so (B7); the caller then flushes and writes the clean-shutdown file (B5).

    starting -> recovery -> running -> shutting_down -> stopped

Notes: broker_state, registration_refused(error).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from uuid import UUID

from insync.node.config import NodeConfig
from insync.sansio import Message, Outbox
from insync.storage import checkpoints
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_heartbeat, broker_registration

STARTING = "starting"
RECOVERY = "recovery"
RUNNING = "running"
SHUTTING_DOWN = "shutting_down"
STOPPED = "stopped"

CHANNEL = "heartbeat"


class Lifecycle:
    def __init__(
        self,
        config: NodeConfig,
        rng: Random,
        out: Outbox,
        controller_id: Callable[[], int],
        previous_broker_epoch: int,
    ) -> None:
        self.config = config
        self.out = out
        self.state = STARTING
        self.broker_epoch = -1
        self.fenced = True
        self.metadata_offset = -1  # of the last record applied
        self.taking_up = False  # the roles of the last uptime, for the first time
        self.incarnation_id = config.incarnation_id or UUID(int=rng.getrandbits(128), version=4)
        self._previous_broker_epoch = previous_broker_epoch
        self._controller_id = controller_id
        self._due: int | None = None
        self._shutdown_deadline: int | None = None
        self._in_flight: object | None = None
        self._wanted_fence = True  # in the last heartbeat
        self._refused_with = ErrorCode.none
        self.refusal = ""
        """Why the cluster will never take this broker; the node then stops (B9)."""

    @property
    def registered(self) -> bool:
        return self.broker_epoch >= 0

    @property
    def saw_registration(self) -> bool:
        return self.registered and self.metadata_offset >= self.broker_epoch

    @property
    def caught_up(self) -> bool:
        """B3: the broker has seen its own registration, and taken up its roles as of then."""
        return self.saw_registration and not self.taking_up

    def start(self, now: int) -> None:
        self._due = now

    def begin_shutdown(self, now: int) -> None:
        """B7: ask to be let go; a broker that never registered, or gets no answer in time, stops all the same.

        Asked a second time, it waits no longer: when a whole cluster stops, nobody is left to let the last ones go.
        """
        if self.state == SHUTTING_DOWN:
            self._shutdown_deadline = now
        if self.state in (SHUTTING_DOWN, STOPPED):
            return
        if not self.registered:
            self._become(STOPPED)
            return
        self._become(SHUTTING_DOWN)
        self._shutdown_deadline = now + self.config.controlled_shutdown_timeout_ms
        self._in_flight = None
        self._due = now

    def metadata_applied(self, offset: int, now: int) -> None:
        """The image has reached `offset`: tell the controller at once when that is what it waits for."""
        was = self.caught_up
        self.metadata_offset = offset
        self.taking_up = False
        if self.caught_up and (not was or self.state == SHUTTING_DOWN) and self._in_flight is None:
            self._due = now

    def controller_changed(self, now: int) -> None:
        """A new controller is heard of: whatever was asked of the old one is asked again."""
        self._in_flight = None
        if self._due is not None and self.state != STOPPED:
            self._due = now

    def tick(self, now: int) -> None:
        if self._shutdown_deadline is not None and now >= self._shutdown_deadline:
            self._become(STOPPED)
        if self.state == STOPPED or self._due is None or now < self._due:
            return
        peer = self._controller_id()
        if peer < 0 or self._in_flight is not None:
            self._due = now + self.config.registration_retry_ms
            return
        if self.registered:
            self._due = now + self.config.heartbeat_interval_ms
            self._send(peer, self._heartbeat(), self._on_heartbeat)
        else:
            self._due = now + self.config.registration_retry_ms
            self._send(peer, self._registration(), self._on_registration)

    def next_deadline(self) -> int | None:
        if self.state == STOPPED:
            return None
        if self._due is None or self._shutdown_deadline is None:
            return self._due
        return min(self._due, self._shutdown_deadline)

    def _send(self, peer: int, request: Message, on_answer: Callable[[Message, int], None]) -> None:
        ticket = self._in_flight = object()

        def on_response(response: Message | None, now: int) -> None:
            if self._in_flight is not ticket or self.state == STOPPED:
                return  # late: a newer request took its place
            self._in_flight = None
            if response is None or response.error_code is not ErrorCode.none:
                if response is not None and response.error_code is ErrorCode.stale_broker_epoch:
                    self._register_anew()
                if response is not None and not self.registered:
                    self._on_refused_registration(response.error_code)
                self._due = min(self._due or now, now + self.config.registration_retry_ms)
                return
            on_answer(response, now)

        self.out.send(peer, CHANNEL, request, on_response, timeout_ms=self._timeout_ms)

    @property
    def _timeout_ms(self) -> int:
        """Giving up resets the connection, and a heartbeat that a busy controller has not read yet goes with it: so not
        too soon, but in time for another attempt within the session."""
        return max(self.config.heartbeat_interval_ms * 2, self.config.controller.session_timeout_ms // 4)

    def _registration(self) -> Message:
        """B5: the epoch of the last uptime if it ended cleanly, else -1."""
        return broker_registration.BrokerRegistrationRequest(
            broker_id=self.config.node_id,
            cluster_id=self.config.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=tuple(
                broker_registration.Listener(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for e in self.config.endpoints
            ),
            features=(),
            rack=self.config.rack,
            log_dirs=(self.config.directory_id,),
            previous_broker_epoch=self._previous_broker_epoch,
        )

    def _on_registration(self, response: Message, now: int) -> None:
        self.broker_epoch = response.broker_epoch  # B1
        if self.state == STARTING:
            self._become(RECOVERY)
        self._due = now

    def _on_refused_registration(self, error: ErrorCode) -> None:
        """B2, B9: said once. A name is free when its earlier uptime is fenced; a wrong identity stays wrong."""
        if error is not self._refused_with:
            self._refused_with = error
            self.out.note("registration_refused", error=error.name)
        self.refusal = refusal(self.config, error)

    def _register_anew(self) -> None:
        """B8: this uptime has another epoch by now, from a registration that was sent twice and arrived late, or none.

        1. A registration of an earlier process of this broker was held up in the network. 2. This process registers.
        3. The old request arrives while this one is still fenced, and is accepted (B2). Asking again settles it: the
        same incarnation is told its epoch, another one is replaced.
        """
        self.broker_epoch = -1
        self.fenced = True
        if self.state != SHUTTING_DOWN:
            self._become(STARTING)

    def _heartbeat(self) -> Message:
        """B3: want_fence until this uptime's registration has been seen."""
        self._wanted_fence = not self.caught_up
        return broker_heartbeat.BrokerHeartbeatRequest(
            broker_id=self.config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.metadata_offset,
            want_fence=self._wanted_fence,
            want_shut_down=self.state == SHUTTING_DOWN,
        )

    def _on_heartbeat(self, response: Message, now: int) -> None:
        self.fenced = response.is_fenced
        if self.state == RECOVERY and not response.is_fenced:
            self._become(RUNNING)
        elif self.state == RECOVERY and self.caught_up and self._wanted_fence:
            self._due = now  # B3: the registration was seen while this heartbeat was under way; say so now
        elif self.state == SHUTTING_DOWN and response.should_shut_down:
            self._become(STOPPED)  # B7

    def _become(self, state: str) -> None:
        self.state = state
        self.out.note("broker_state", state=state, broker_epoch=self.broker_epoch)


def refusal(config: NodeConfig, error: ErrorCode) -> str:
    """B9: what a registration error says of this node's identity; empty if asking again may help."""
    if error is ErrorCode.invalid_registration:
        return (
            f"the controller refused broker {config.node_id}: the id of its log directory {config.log_dir} "
            f"({checkpoints.encode_uuid(config.directory_id)}) is registered by another broker. The directory is a "
            "copy: start this broker with a directory of its own."
        )
    if error is ErrorCode.inconsistent_cluster_id:
        return (
            f"the controller refused broker {config.node_id}: its log directory {config.log_dir} belongs to cluster "
            f"{config.cluster_id}, and the controller to another. Correct controller.quorum.voters or log.dirs."
        )
    return ""
