"""How long a replica waits in elections: as configured, or longer where its own disk is slow.

An election takes several writes, one after the other. On a disk slower than the election timeout no election would
ever end, so the duration of the last writes stretches the timeouts.
"""

from __future__ import annotations

import random

from insync.quorum.config import QuorumConfig

DISK_WRITES_PER_ELECTION = 4
"""From the first vote to the first commit: the candidate's epoch, the vote, the leadership, and the first entry."""

NO_MAJORITY_BACKOFF_MS = 5_000
"""The longest pause between two campaigns while there is no intact majority."""


class ElectionTimeouts:
    __slots__ = ("_config", "_rng", "disk_ms")

    def __init__(self, config: QuorumConfig, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self.disk_ms = 0
        """How long the slowest of the last writes took to become durable."""

    def record_write(self, duration_ms: int) -> None:
        """A slow write is remembered for a while, because the next election needs several."""
        self.disk_ms = max(duration_ms, self.disk_ms * 7 // 8)

    def election_timeout_ms(self) -> int:
        slow = min(DISK_WRITES_PER_ELECTION * self.disk_ms, self._config.election_timeout_max_ms)
        return max(self._config.election_timeout_ms, slow)

    def request_timeout_ms(self) -> int:
        """For a request that the other side answers after a disk write."""
        return max(self._config.request_timeout_ms, self.election_timeout_ms())

    def election_deadline(self, now: int) -> int:
        """Between one and two election timeouts from now, so that voters rarely start together."""
        timeout = self.election_timeout_ms()
        return now + timeout + self._rng.randrange(timeout)

    def first_deadline(self, now: int) -> int:
        """Within one election timeout of the start. A voter that has just started need not wait for a leader: if there
        is one, the answers to its pre-votes name it, and they disturb no other voter (Q4)."""
        return now + 1 + self._rng.randrange(self.election_timeout_ms())

    def backoff_deadline(self, now: int, retries: int, *, has_majority: bool) -> int:
        """When to campaign again after a defeat. Q8: without an intact majority only another voter or an operator can
        help, so the pauses are longer."""
        longest = max(self._config.election_backoff_max_ms, self.disk_ms)
        if not has_majority:
            longest = max(longest, NO_MAJORITY_BACKOFF_MS)
        limit = min(longest, 50 << min(retries, 20))
        return now + 1 + self._rng.randrange(limit)
