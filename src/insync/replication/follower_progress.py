"""What a leader knows of one follower, all of it from fetches in the current leader epoch (F4, I1)."""

from __future__ import annotations

from insync.replication import isr
from insync.replication.fetch_session import CachedPartition
from insync.replication.high_watermark import UNKNOWN

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
        """T1, T3: nothing from an earlier epoch counts, least of all a member's LEO.

        1. Leader 1 knows that 2 holds 10 records. 2. Replica 3 leads for a while with 8 of them, and 2 truncates. 3. 1
        leads again and has not noticed. It must not commit what 2 no longer has.
        """
        self.leo = self.log_start = UNKNOWN
        self.broker_epoch = NO_BROKER_EPOCH
        self.last_fetch_ms = LONG_AGO
        self.last_caught_up_ms = caught_up_ms
        self.leo_at_last_fetch = UNKNOWN
        self.fetched_in_epoch = False
        self.held_back = False
        """R6: it was noted that the throttle holds this follower back."""
        self.served_offset = UNKNOWN
        """D6: its position when it was last sent records. If it asks for that offset again, it could not use them."""
        self.cached: CachedPartition | None = None

    def forget_fetch(self) -> None:
        """T3: the LEO stays, but it does not count until the follower has fetched in this epoch."""
        self.last_caught_up_ms = LONG_AGO
        self.leo_at_last_fetch = UNKNOWN
        self.fetched_in_epoch = False
        self.held_back = False
        self.cached = None

    def record_fetch(self, cached: CachedPartition, broker_epoch: int, leader_leo: int, now: int) -> None:
        """F4: a valid fetch shows the follower's LEO, its incarnation, and when it was last caught up."""
        self.last_caught_up_ms = isr.caught_up_at(
            cached.fetch_offset, leader_leo, now, self.leo_at_last_fetch, self.last_fetch_ms, self.last_caught_up_ms
        )
        self.leo = cached.fetch_offset
        self.log_start = cached.log_start
        self.broker_epoch = broker_epoch
        self.last_fetch_ms = now
        self.leo_at_last_fetch = leader_leo
        self.fetched_in_epoch = True
        self.cached = cached

    def record_idle_rounds(self, leader_leo: int) -> None:
        """I1: to be called before the leader's LEO moves. Every round of a session fetches its idle partitions too.

        A round does not name unchanged partitions, so it leaves no trace here. While the follower is level with the
        leader, each round was a fetch at the LEO, and at the last one the follower was caught up.
        """
        cached = self.cached
        if self.leo == leader_leo and cached is not None and cached.session is not None:
            last_round_ms = cached.session.last_fetch_ms
            if last_round_ms > self.last_fetch_ms:
                self.last_fetch_ms = self.last_caught_up_ms = last_round_ms
                self.leo_at_last_fetch = leader_leo
