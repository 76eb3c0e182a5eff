"""A broker's lifecycle: registered, fenced, running, shutting down (B1, B3, B5, B7).

A broker starts fenced. It registers, which gives this incarnation its broker epoch (B1), catches up with the metadata
log to its own registration, and asks by heartbeat to be unfenced (B3). A controlled shutdown asks by heartbeat for
permission to stop (B7); the caller then flushes and writes the clean-shutdown file (B5).

    starting -> recovery -> running -> shutting_down -> stopped

Notes: broker_state, registration_refused(error).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from insync.node.config import NodeConfig
from insync.sansio import Outbox
from insync.storage import checkpoints
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_heartbeat, broker_registration

if TYPE_CHECKING:
    _Request = broker_registration.BrokerRegistrationRequest | broker_heartbeat.BrokerHeartbeatRequest
    _Response = broker_registration.BrokerRegistrationResponse | broker_heartbeat.BrokerHeartbeatResponse

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
        self.applying_assignments = False  # those of the registration
        self.incarnation_id = config.incarnation_id or UUID(int=rng.getrandbits(128), version=4)
        self._previous_broker_epoch = previous_broker_epoch
        self._controller_id = controller_id
        self._due: int | None = None
        self._shutdown_deadline: int | None = None
        self._in_flight: object | None = None
        self._wanted_fence = True  # in the last heartbeat
        self._refused_with = ErrorCode.none
        self.refusal = ""
        """Why the cluster will never accept this broker; the node then stops (B9)."""

    @property
    def registered(self) -> bool:
        return self.broker_epoch >= 0

    @property
    def saw_registration(self) -> bool:
        return self.registered and self.metadata_offset >= self.broker_epoch

    @property
    def caught_up(self) -> bool:
        """B3: the broker has seen its own registration and applied its assignments as of then."""
        return self.saw_registration and not self.applying_assignments

    def start(self, now: int) -> None:
        self._due = now

    def begin_shutdown(self, now: int) -> None:
        """B7: ask for permission to stop; a broker that never registered, or gets no answer in time, stops anyway.

        A second call stops at once: when a whole cluster stops, no controller is left to permit the last broker.
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
        """The image has reached `offset`: send a heartbeat at once if the controller waits for that."""
        was = self.caught_up
        self.metadata_offset = offset
        self.applying_assignments = False
        if self.caught_up and (not was or self.state == SHUTTING_DOWN) and self._in_flight is None:
            self._due = now

    def controller_changed(self, now: int) -> None:
        """There is a new controller: ask it again what the old one was asked."""
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

    def _send(self, peer: int, request: _Request, on_answer: Callable[[Any, int], None]) -> None:
        ticket = self._in_flight = object()

        def on_response(response: _Response | None, now: int) -> None:
            if self._in_flight is not ticket or self.state == STOPPED:
                return  # late: a newer request replaced it
            self._in_flight = None
            if response is None or response.error_code is not ErrorCode.none:
                if response is not None and response.error_code is ErrorCode.stale_broker_epoch:
                    self._register_again()
                if response is not None and not self.registered:
                    self._on_refused_registration(response.error_code)
                self._due = min(self._due or now, now + self.config.registration_retry_ms)
                return
            on_answer(response, now)

        self.out.send(peer, CHANNEL, request, on_response, timeout_ms=self._timeout_ms)

    @property
    def _timeout_ms(self) -> int:
        """A timeout resets the connection and loses a heartbeat that a busy controller has not read yet. So it is long,
        but leaves time for another attempt within the session."""
        return max(self.config.heartbeat_interval_ms * 2, self.config.controller.session_timeout_ms // 4)

    def _registration(self) -> broker_registration.BrokerRegistrationRequest:
        """B5: with the epoch of the last incarnation if it stopped cleanly, else -1."""
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

    def _on_registration(self, response: broker_registration.BrokerRegistrationResponse, now: int) -> None:
        self.broker_epoch = response.broker_epoch  # B1
        if self.state == STARTING:
            self._become(RECOVERY)
        self._due = now

    def _on_refused_registration(self, error: ErrorCode) -> None:
        """B2, B9: noted once. The id is free when its earlier incarnation is fenced; a wrong identity stays wrong."""
        if error is not self._refused_with:
            self._refused_with = error
            self.out.note("registration_refused", error=error.name)
        self.refusal = refusal(self.config, error)

    def _register_again(self) -> None:
        """B8: this incarnation has another epoch by now, from a registration that was sent twice, or none.

        1. A registration of an earlier process of this broker was delayed in the network. 2. This process registers.
        3. The old request arrives while this one is still fenced, and is accepted (B2). Registering again resolves it:
        the same incarnation gets its epoch, another one is replaced.
        """
        self.broker_epoch = -1
        self.fenced = True
        if self.state != SHUTTING_DOWN:
            self._become(STARTING)

    def _heartbeat(self) -> broker_heartbeat.BrokerHeartbeatRequest:
        """B3: want_fence until this incarnation has seen its registration."""
        self._wanted_fence = not self.caught_up
        return broker_heartbeat.BrokerHeartbeatRequest(
            broker_id=self.config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.metadata_offset,
            want_fence=self._wanted_fence,
            want_shut_down=self.state == SHUTTING_DOWN,
        )

    def _on_heartbeat(self, response: broker_heartbeat.BrokerHeartbeatResponse, now: int) -> None:
        self.fenced = response.is_fenced
        if self.state == RECOVERY and not response.is_fenced:
            self._become(RUNNING)
        elif self.state == RECOVERY and self.caught_up and self._wanted_fence:
            self._due = now  # B3: it caught up while this heartbeat was in flight; send another now
        elif self.state == SHUTTING_DOWN and response.should_shut_down:
            self._become(STOPPED)  # B7

    def _become(self, state: str) -> None:
        self.state = state
        self.out.note("broker_state", state=state, broker_epoch=self.broker_epoch)


def refusal(config: NodeConfig, error: ErrorCode) -> str:
    """B9: what a registration error means for this node's identity; empty if another attempt may succeed."""
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
