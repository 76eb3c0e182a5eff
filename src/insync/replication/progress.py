"""What a leader knows of one follower, all of it learnt from fetches in the current leader epoch (F4, I1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.replication import isr
from insync.replication.high_watermark import UNKNOWN

if TYPE_CHECKING:
    from insync.replication.fetch_session import CachedPartition

LONG_AGO = -(1 << 62)
NO_BROKER_EPOCH = -1


class FollowerProgress:
    __slots__ = (
        "broker",
        "broker_epoch",
        "cached",
        "fetched_in_epoch",
        "held_back",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leo",
        "leo_at_last_fetch",
        "log_start",
        "served_offset",
    )

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.reset(LONG_AGO)

    def reset(self, caught_up_ms: int) -> None:
        """T1, T3: nothing of an earlier epoch counts.

        A member's LEO least of all: (1) leader 1 knows that 2 holds 10 records; (2) 3 leads for a while with 8 of them
        and 2 truncates; (3) 1 leads again and has not noticed. It must not commit what 2 no longer has.
        """
        self.leo = self.log_start = UNKNOWN
        self.broker_epoch = NO_BROKER_EPOCH
        self.last_fetch_ms = LONG_AGO
        self.last_caught_up_ms = caught_up_ms
        self.leo_at_last_fetch = UNKNOWN
        self.fetched_in_epoch = False
        self.held_back = False
        self.served_offset = UNKNOWN
        """D6: where it stood when it was last sent records. If it asks from there again, it could not use them."""
        self.cached: CachedPartition | None = None

    def forget_fetch(self) -> None:
        """T3: where it was is kept for the record, but it has yet to say in this epoch that it still is there."""
        self.last_caught_up_ms = LONG_AGO
        self.leo_at_last_fetch = UNKNOWN
        self.fetched_in_epoch = False
        self.held_back = False
        self.cached = None

    def fetched(self, offset: int, broker_epoch: int, leader_leo: int, cached: CachedPartition, now: int) -> None:
        """F4: a valid fetch tells the follower's LEO, its uptime, and when it was last caught up."""
        self.last_caught_up_ms = isr.caught_up_at(
            offset, leader_leo, now, self.leo_at_last_fetch, self.last_fetch_ms, self.last_caught_up_ms
        )
        self.leo = offset
        self.broker_epoch = broker_epoch
        self.last_fetch_ms = now
        self.leo_at_last_fetch = leader_leo
        self.fetched_in_epoch = True
        self.cached = cached

    def settle(self, leader_leo: int) -> None:
        """I1, before the leader's LEO moves: an idle partition is fetched by every round of its session.

        Such a round names no unchanged partition, so it leaves no trace here. While the follower is level with the
        leader, each round was a fetch at the LEO, and the last one is when it was last caught up.
        """
        cached = self.cached
        if self.leo == leader_leo and cached is not None and cached.session is not None:
            last_round = cached.session.last_fetch_ms
            if last_round > self.last_fetch_ms:
                self.last_fetch_ms = self.last_caught_up_ms = last_round
                self.leo_at_last_fetch = leader_leo
