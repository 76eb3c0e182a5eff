"""Parsing seeds and ranges of seeds, and running many of them in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from insync.cli.exits import usage_error

T = TypeVar("T")

MAX_SEED = 2**63


def seed_range(text: str) -> range:
    """Parse `A:B`, which excludes B, or a single seed."""
    first, colon, last = text.partition(":")
    try:
        low = int(first)
        high = int(last) if colon else low + 1
    except ValueError:
        raise usage_error(f"'{text}' is not a range of seeds: write A:B, such as 0:2000, or one seed") from None
    if not 0 <= low < high <= MAX_SEED:
        raise usage_error(f"seeds {text}: need 0 <= A < B, and B at most 2^63")
    return range(low, high)


def one_seed(text: str) -> int:
    if ":" in text:
        raise usage_error(f"'{text}' is a range: this command takes one seed")
    return seed_range(text).start


def over_processes(work: Callable[[int], T], seeds: Sequence[int], jobs: int) -> Iterator[T]:
    """Results as they are completed; with one process, in order."""
    if jobs <= 1 or len(seeds) <= 1:
        yield from map(work, seeds)
        return
    with multiprocessing.get_context("fork").Pool(min(jobs, len(seeds))) as pool:
        yield from pool.imap_unordered(work, seeds, chunksize=1)
