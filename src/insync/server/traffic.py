"""Counts requests, bytes and latencies per API. It is on the hot path, so it uses plain lists."""

from __future__ import annotations

from bisect import bisect_left

BUCKETS_MS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
"""Upper bounds of the latency histogram."""

_BUCKETS_NS = tuple(int(bound * 1_000_000) for bound in BUCKETS_MS)


class ApiTraffic:
    __slots__ = ("bytes_in", "bytes_out", "nanoseconds", "requests", "slower")

    def __init__(self) -> None:
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.nanoseconds = 0
        self.slower = [0] * (len(BUCKETS_MS) + 1)
        """Answers per latency bucket; the last counts those above every bound."""


class Traffic:
    def __init__(self) -> None:
        self.apis: dict[int, ApiTraffic] = {}

    def record_request(self, api_key: int, size: int) -> None:
        api = self.apis.get(api_key)
        if api is None:
            api = self.apis[api_key] = ApiTraffic()
        api.requests += 1
        api.bytes_in += size

    def record_response(self, api_key: int, size: int, nanoseconds: int) -> None:
        api = self.apis[api_key]
        api.bytes_out += size
        api.nanoseconds += nanoseconds
        api.slower[bisect_left(_BUCKETS_NS, nanoseconds)] += 1
