"""What a replica of the metadata log is at the moment: unattached, prospective, candidate, leader, follower, resigned.

A role object lives from one transition to the next, and every transition makes a new one. So the test for a late answer
is the same everywhere: is the role that asked still the current one? A change of epoch, of leader or of mind since the
request was sent makes it false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insync.quorum.core import Core


class Role:
    __slots__ = ("core",)

    name = ""
    is_leader = False

    def __init__(self, core: Core) -> None:
        self.core = core

    @property
    def current(self) -> bool:
        return self.core.role is self

    def enter(self, now: int) -> None:
        """The role is now the current one: begin its timers and send its requests."""

    def leave(self, now: int) -> None:
        """Another role is current: answer whoever waits for this one."""

    def tick(self, now: int) -> None:
        """Do what is due. Doing it twice at one time is the same as once."""

    def next_deadline(self) -> int | None:
        """When `tick` has something to do, if nothing else happens first."""
        return None

    def postpone(self, by_ms: int) -> None:
        """We were waiting for our own disk this long: the time does not count."""

    def on_durable(self, now: int) -> None:
        """More of the log is on disk."""

    def has_heard(self) -> bool:
        """Whether the leader that we follow has answered us as such."""
        return False

    def peer_lost(self, peer: int, now: int) -> None:
        """A hint that another node's process has died."""

    def abandon(self, token: int) -> None:
        """Nobody waits for the answer to this fetch any longer."""

    def refuses_pre_votes(self) -> bool:
        """Q4: a replica that has a leader it hears from helps nobody to unseat it (KIP-996)."""
        return False


class NoRole(Role):
    """Before `start`."""

    __slots__ = ()

    name = "stopped"
