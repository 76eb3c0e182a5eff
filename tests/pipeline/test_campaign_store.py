"""What a campaign has done and what is left: file names, ranges and chunks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.pipeline.campaign import job as campaign
from insync.pipeline.campaign import seeds as campaign_seeds
from insync.pipeline.campaign.seeds import RunOptions, make_row
from insync.pipeline.campaign.store import (
    Chunks,
    Store,
    choose_chunk_size,
    digest_build,
    file_name,
    find_missing,
    parse_file_name,
)
from insync.sim import run

RANGES = st.lists(st.builds(lambda a, n: range(a, a + n), st.integers(0, 60), st.integers(1, 20)), max_size=6)


@given(st.builds(lambda a, n: range(a, a + n), st.integers(0, 40), st.integers(1, 50)), RANGES)
def test_missing_seeds_are_exactly_those_in_no_file(seeds: range, done: list[range]) -> None:
    left = [seed for part in find_missing(seeds, done) for seed in part]
    assert left == [seed for seed in seeds if not any(seed in covered for covered in done)]


@given(RANGES, st.integers(1, 9))
def test_chunks_hold_every_seed_once_and_in_order(ranges: list[range], size: int) -> None:
    apart = tuple(range(seeds.start + 1000 * i, seeds.stop + 1000 * i) for i, seeds in enumerate(ranges))
    chunks = Chunks(apart, size)
    assert [seed for chunk in chunks for seed in chunk] == [seed for seeds in apart for seed in seeds]
    assert all(1 <= len(chunk) <= size for chunk in chunks)


def test_an_unfinished_file_does_not_count(tmp_path: Path) -> None:
    store = Store(str(tmp_path), "b")
    store.create()
    store.write(range(8), b"whole", "1")
    (Path(store.path) / f".{file_name(range(8, 16))}.2").write_bytes(b"half")
    assert list(store.parts()) == [range(8)]
    assert parse_file_name("part-x.parquet") is None


def test_other_run_options_are_another_build() -> None:
    assert digest_build(0, "") == digest_build(0, "")
    assert len({digest_build(0, ""), digest_build(100, ""), digest_build(0, "no_epoch_check")}) == 3


def test_chunks_are_neither_too_small_nor_too_few() -> None:
    assert choose_chunk_size(100, cores=2) == 8
    assert choose_chunk_size(1_000_000, cores=2) == 64
    assert choose_chunk_size(1_000, cores=2) == 31


def test_a_seed_that_crashes_the_simulator_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(plan: object) -> None:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(run, "run_plan", crash)
    row = make_row(7, RunOptions())
    assert (row["seed"], row["property"]) == (7, run.CRASH)
    assert "RuntimeError: out of ideas" in row["detail"]
    assert set(row) == set(campaign_seeds.SCHEMA.names)


def test_a_failure_names_the_command_that_reproduces_it() -> None:
    assert campaign.replay_command(7, RunOptions()) == "insync sim replay 7"
    assert campaign.replay_command(7, RunOptions(steps=100)) == "insync sim run --seeds 7 --steps 100"
    assert campaign.replay_command(7, RunOptions(mutant="x")) == "insync sim shrink 7 --mutant x"
