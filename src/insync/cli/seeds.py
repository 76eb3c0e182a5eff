"""Reading what people type for seeds, and running many of them over several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import typer

T = TypeVar("T")

MAX_SEED = 2**63


def complain(message: str) -> typer.Exit:
    """Say what is wrong with the input and end with exit code 2."""
    typer.echo(f"insync: {message}", err=True)
    return typer.Exit(2)


def seed_range(text: str) -> range:
    """`A:B` for A up to, not including, B; or one seed."""
    first, colon, last = text.partition(":")
    try:
        low = int(first)
        high = int(last) if colon else low + 1
    except ValueError:
        raise complain(f"'{text}' is not a range of seeds: write A:B, such as 0:2000, or one seed") from None
    if not 0 <= low < high <= MAX_SEED:
        raise complain(f"seeds {text}: need 0 <= A < B, and B at most 2^63")
    return range(low, high)


def one_seed(text: str) -> int:
    if ":" in text:
        raise complain(f"'{text}' is a range: this command takes one seed")
    return seed_range(text).start


def over_processes(work: Callable[[int], T], seeds: Sequence[int], jobs: int) -> Iterator[T]:
    """Results in whatever order they are done; one process runs them in order."""
    if jobs <= 1 or len(seeds) <= 1:
        yield from map(work, seeds)
        return
    with multiprocessing.get_context("fork").Pool(min(jobs, len(seeds))) as pool:
        yield from pool.imap_unordered(work, seeds, chunksize=1)
