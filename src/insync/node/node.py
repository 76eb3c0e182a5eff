"""One process of the cluster, sans-IO: a broker, a controller, or both.

`step(event, now)` routes an event to the component that it concerns, applies committed metadata, and returns the
effects. Components do not call each other within an event: the quorum only moves its high watermark or its leader, and
`_follow_quorum` acts on that after the event.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from insync.findings import Findings
from insync.metadata.changes import Changes
from insync.metadata.image import Image
from insync.node.access import Access, AccessControl
from insync.node.authorization import old_versions
from insync.node.authorization.checks import Complete, Refused, Rights, allow
from insync.node.broker_role import BrokerRole
from insync.node.config import NodeConfig
from insync.node.controller_role import ControllerRole
from insync.node.handlers import HANDLERS, Handler, Role, hang_up_unserved
from insync.node.lifecycle import STOPPED, Lifecycle
from insync.node.metadata_loader import MetadataLoader
from insync.quorum.config import METADATA_DIRECTORY
from insync.quorum.quorum import Quorum
from insync.quorum.state import RaftState
from insync.replication.manager import ReplicaManager
from insync.replication.replica import Replica
from insync.sansio import (
    UNKNOWN_CLIENT,
    Client,
    DiskFailed,
    Effect,
    Event,
    HangUp,
    Message,
    Outbox,
    PeerLost,
    Reply,
    Request,
    RequestAbandoned,
    Response,
    Shutdown,
    Stop,
    Synced,
    TurnEnded,
)
from insync.security.authorizer import Authorizer
from insync.security.quotas import QuotaManager, Windows
from insync.storage.config import LogConfig
from insync.storage.disk import Disk
from insync.storage.log_loader import open_log
from insync.wire.apis import FETCH
from insync.wire.messages import metadata
from insync.wire.types import METADATA_TOPIC_ID
from insync.wire.versions.context import RequestContext

LATE_MS = 100
"""A timer that fires later than this shows that the node was stalled."""


class Node:
    def __init__(self, config: NodeConfig, disk: Disk, rng: Random, now: int) -> None:
        self.config = config
        self.id = config.node_id
        self.out = Outbox()
        self.findings = Findings(self.out)
        self.changed: list[Replica] = []
        self.stopped = False
        self.halted = False  # stopped, and not cleanly
        self.described_topics: dict[tuple[UUID, str], metadata.MetadataResponseTopic] = {}
        self.quotas = QuotaManager(
            Windows(config.quota_windows, config.quota_window_ms),
            Windows(config.mutation_quota_windows, config.mutation_quota_window_ms),
        )
        self._quotas_from: Image | None = None  # the image that `quotas` is up to date with
        self._leader = (-1, -1)  # (epoch, id) of the quorum's leader that the node last acted on
        self._due: int | None = None  # the deadline that `next_deadline` last returned
        self._ticked_at = now
        self._stepped_at = now
        self._change_token: tuple[object, ...] = ()  # of the quorum, when the node last acted on it
        self.metadata_loader = MetadataLoader(
            config.node_id, config.metadata_snapshot_records, config.topic_defaults, config.metadata_apply_records
        )
        self._apply_at: int | None = None  # when committed metadata remains to be applied
        self.access_control = AccessControl(config.authorizer, self.out, self._is_caught_up)
        self._completions: dict[int, Complete] = {}  # by token: requests of which some entries were refused
        log = open_log(disk, METADATA_DIRECTORY, topic_id=METADATA_TOPIC_ID, config=LogConfig(retention_ms=-1))
        state = RaftState(
            node_id=config.node_id,
            voters=config.voters,
            cluster_id=config.cluster_id,
            log=log,
            disk=disk,
            directory=METADATA_DIRECTORY,
            config=config.quorum,
            rng=rng,
            out=self.out,
            on_snapshot=self._load_snapshot,
            findings=self.findings,
        )
        self.quorum = Quorum(state)
        self.controller_role: ControllerRole | None = (
            ControllerRole(config, self.quorum, rng, self.out, self.quotas) if config.is_controller else None
        )
        self.broker_role: BrokerRole | None = (
            BrokerRole(config, disk, rng, self.out, self.quorum, self.metadata_loader, self.findings, now)
            if config.is_broker
            else None
        )

    # --- for drivers --------------------------------------------------------------------------------------------------

    def start(self, now: int) -> list[Effect]:
        self.quorum.start(now)
        self.metadata_loader.finish_loading()
        self._leader = (
            self.quorum.epoch,
            self.quorum.leader_id,
        )  # from before the restart: no change
        if self.broker_role:
            self.broker_role.lifecycle.start(now)
        self._tick(now)
        return self._finish(now)

    def step(self, event: Event, now: int) -> list[Effect]:
        if self.stopped:
            return []
        try:
            self._route(event, now)
            return self._finish(now)
        except OSError as error:
            return self._halt(error)

    def next_deadline(self) -> int | None:
        """Drivers call it after every step."""
        first = self.quorum.next_deadline()
        if self._apply_at is not None and (first is None or self._apply_at < first):
            first = self._apply_at
        times = self.broker_role.deadlines() if self.broker_role else ()
        if self.controller_role:
            role = self.controller_role
            times = (*times, self._stepped_at if role.has_slices else role.next_deadline())
        for time in times:
            if time is not None and (first is None or time < first):
                first = time
        self._due = first
        return first

    def may_act_as_node(self, client: Client) -> bool:
        """A4: whether this client may send what only nodes send."""
        return self.access_control.may_act_as_node(client)

    def check_translated(self, context: RequestContext, client: Client, now: int) -> None:
        """A3: apply the client's rights to what the version translator answers by itself."""
        if self.access_control.authorizer is not None:
            old_versions.check_translated(context, Access(self.access_control, client, now))

    # --- for observers -----------------------------------------------------------------------------------------------

    @property
    def image(self) -> Image:
        return self.metadata_loader.image

    @property
    def authorizer(self) -> Authorizer | None:
        return self.access_control.authorizer

    @property
    def replicas(self) -> ReplicaManager | None:
        return self.broker_role.replicas if self.broker_role else None

    @property
    def lifecycle(self) -> Lifecycle | None:
        return self.broker_role.lifecycle if self.broker_role else None

    @property
    def broker_epoch(self) -> int:
        return self.broker_role.lifecycle.broker_epoch if self.broker_role else -1

    # --- routing -----------------------------------------------------------------------------------------------------

    def _route(self, event: Event, now: int) -> None:
        kind = type(event)
        if kind is Request:
            self._request(event, now)  # type: ignore[arg-type]
        elif kind is TurnEnded:
            if self.broker_role:
                self.broker_role.replicas.finish_step(now)
        elif kind is RequestAbandoned:
            self._abandon(event, now)  # type: ignore[arg-type]
        elif kind is Response:
            event.send.on_response(event.response, now)  # type: ignore[union-attr]
        elif kind is Synced:
            event.sync.on_done(now)  # type: ignore[union-attr]
        elif kind is DiskFailed:
            raise event.error  # type: ignore[union-attr]
        elif kind is PeerLost:
            self._peer_lost(event.peer, now)  # type: ignore[union-attr]
        elif kind is Shutdown:
            self._begin_shutdown(now)
        else:
            self._tick(now)

    def _request(self, event: Request, now: int) -> None:
        handler = HANDLERS.get(event.request.__api_key__)
        client = event.client
        if handler is not None and client is not UNKNOWN_CLIENT and self._has_to_check(event, handler):
            checked = self._authorize(event, handler.rights, now)
            if checked is None:
                return
            event = checked
        if handler is not None and handler.role is not Role.BROKER:
            handler.handle(self, event, now)
        elif handler is not None and self.broker_role:
            handler.handle(self.broker_role, event, now)
        else:
            hang_up_unserved(self.out, event)

    def _has_to_check(self, event: Request, handler: Handler) -> bool:
        """A1: what a broker forwards is checked by the controller that decides it."""
        if self.access_control.authorizer is None:
            is_for_nodes = handler.rights.is_for_nodes  # A4
            return not event.client.on_node_listener and is_for_nodes is not None and is_for_nodes(event.request)
        return handler.role is not Role.FORWARDED or self.broker_role is None

    def _authorize(self, event: Request, rights: Rights, now: int) -> Request | None:
        """A3: the request without the entries that are refused; None if it was answered here."""
        client = event.client
        if rights.check is not allow and not self.access_control.can_decide(client.principal):
            # A5: clients try again after a lost connection, and give up after a refusal.
            self.out.hang_up(event.token, f"the ACLs are not loaded yet, and {client.principal} is not a super user")
            return None
        outcome = rights.check(event.request, Access(self.access_control, client, now), self)
        if outcome is None:
            return event
        if isinstance(outcome, Refused):
            self._answer(event.token, outcome.response)
            return None
        self._completions[event.token] = outcome.complete
        return Request(event.token, outcome.request, client, event.more)

    def _answer(self, token: int, response: Message | HangUp | None) -> None:
        if isinstance(response, HangUp):
            self.out.hang_up(token, response.reason)
        else:
            self.out.reply(token, response)

    def _complete_responses(self, effects: list[Effect]) -> list[Effect]:
        """A3: add the refused entries to the responses of requests that were narrowed."""
        for index, effect in enumerate(effects):
            if isinstance(effect, Reply | HangUp):
                complete = self._completions.pop(effect.token, None)
                if complete is not None and isinstance(effect, Reply):
                    completed = complete(effect.response)
                    effects[index] = (
                        HangUp(effect.token, completed.reason)
                        if isinstance(completed, HangUp)
                        else Reply(effect.token, completed)
                    )
        return effects

    def _is_caught_up(self) -> bool:
        """A5: whether everything is applied that the leader of the quorum says is committed."""
        return self.quorum.has_leaders_hwm and self.metadata_loader.applied >= self.quorum.hwm

    def _abandon(self, event: RequestAbandoned, now: int) -> None:
        """Let go of a request that may be parked for long. Others are answered soon, and their answers are dropped."""
        key = event.request.__api_key__
        handler = HANDLERS.get(key)
        if key == FETCH:
            self.quorum.abandon(event.token)
        if self.broker_role and handler is not None and handler.abandon is not None:
            handler.abandon(self.broker_role, event, now)

    def _peer_lost(self, peer: int, now: int) -> None:
        self.quorum.peer_lost(peer, now)
        if self.controller_role:
            self.controller_role.peer_lost(peer, now)
        if self.broker_role:
            self.broker_role.replicas.finish_step(now)

    def _begin_shutdown(self, now: int) -> None:
        if self.broker_role:
            self.broker_role.lifecycle.begin_shutdown(now)
            self.broker_role.lifecycle.tick(now)
        else:
            self._stop_cleanly(now)

    def _tick(self, now: int) -> None:
        self._check_for_stall(now)
        self.quorum.tick(now)
        if self.controller_role:
            self.controller_role.tick(now)
        if self.broker_role:
            self.broker_role.tick(now)

    def _check_for_stall(self, now: int) -> None:
        """A timer that fires late shows that this node did not run. That must not count against others: their messages
        may be unread, or wait for answers that this node owes them (I1, B4)."""
        late_ms = 0 if self._due is None else min(now - self._due, now - self._ticked_at)
        self._ticked_at = now
        if late_ms > LATE_MS:
            if self.controller_role:
                self.controller_role.on_stall(late_ms, now)
            if self.broker_role:
                self.broker_role.replicas.on_stall(late_ms, now)

    # --- after every event -------------------------------------------------------------------------------------------

    def _finish(self, now: int) -> list[Effect]:
        self._stepped_at = now
        self._follow_quorum(now)
        if self.broker_role:
            replicas = self.broker_role.replicas
            self.changed = list(replicas.changed)
            replicas.changed.clear()
            if self.changed:
                self.broker_role.background_tasks.on_replicas_changed(self.changed, now)
                self.broker_role.replicas_changed(self.changed)
            if self.broker_role.lifecycle.state == STOPPED and not self.stopped:
                self._stop_cleanly(now)
        refusal = self.quorum.cluster_mismatch or (self.broker_role.lifecycle.refusal if self.broker_role else "")
        if refusal and not self.stopped:
            return self._stop_refused(refusal)
        effects = self.out.drain()
        return self._complete_responses(effects) if self._completions else effects

    def _follow_quorum(self, now: int) -> None:
        """Act on changes of the quorum; most events leave it as it was."""
        token = self.quorum.change_token()
        if token != self._change_token or self._apply_at is not None:
            self._change_token = token
            self._apply_quorum_changes(now)
            self._apply_at = now if self.metadata_loader.has_more(self.quorum) else None
        if self.broker_role and not self.broker_role.applies_assignments:
            self.broker_role.apply_first_assignments(now)

    def _load_snapshot(self, payloads: list[bytes], offset: int, epoch: int, now: int) -> None:
        """Called by the quorum within an event."""
        self.metadata_loader.load_snapshot(payloads, offset, epoch)
        self._change_token = ()

    def _apply_quorum_changes(self, now: int) -> None:
        """First the leader, then what is committed (Q2), a part per step."""
        quorum, role, broker = self.quorum, self.controller_role, self.broker_role
        if role:
            role.step_down_if_deposed()
        leader = (quorum.epoch, quorum.leader_id)
        if leader != self._leader:
            self._leader = leader
            if broker and leader[1] >= 0:
                broker.lifecycle.controller_changed(now)
                broker.lifecycle.tick(now)
        if self.metadata_loader.catch_up(quorum):
            self.described_topics.clear()
            changes = self.metadata_loader.image.take_changes()
            self._update_quotas(changes)
            self.access_control.apply(self.metadata_loader.image, changes)
            if broker:
                broker.metadata_changed(changes, now)
        self.metadata_loader.maybe_snapshot(quorum)
        if role:
            role.committed(self.metadata_loader.applied)
            role.activate_when_ready(self.metadata_loader.image, self.metadata_loader.applied, now)

    def _update_quotas(self, changes: Changes) -> None:
        """A loaded snapshot is another image, whose changes do not say what it no longer has."""
        image = self.metadata_loader.image
        if changes.client_quotas or image is not self._quotas_from:
            self._quotas_from = image
            self.quotas.update(image.client_quotas)

    def _stop_cleanly(self, now: int) -> None:
        self.stopped = True
        if self.broker_role:
            self.broker_role.close_cleanly(now)
        self.quorum.resign(now)
        self.quorum.close()
        self.out.stop(clean=True, reason="controlled shutdown")

    def _stop_refused(self, reason: str) -> list[Effect]:
        """B9: this node's identity does not match its directory. It leaves no clean-shutdown file."""
        self.stopped = self.halted = True
        self.out.drain()
        return [Stop(clean=False, reason=reason, permanent=True)]

    def _halt(self, error: OSError) -> list[Effect]:
        """A failed disk stops the node, and the effects of this step are dropped."""
        self.stopped = self.halted = True
        self.out.drain()
        return [Stop(clean=False, reason=f"disk failed: {error}", error=error)]
