"""What a campaign has done and what is left: names of files, ranges and chunks."""

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
def test_what_is_left_is_exactly_what_no_file_covers(wanted: range, done: list[range]) -> None:
    left = [seed for each in find_missing(wanted, done) for seed in each]
    assert left == [seed for seed in wanted if not any(seed in each for each in done)]


@given(RANGES, st.integers(1, 9))
def test_chunks_hold_every_seed_once_and_in_order(ranges: list[range], size: int) -> None:
    apart = tuple(range(each.start + 1000 * i, each.stop + 1000 * i) for i, each in enumerate(ranges))
    chunks = Chunks(apart, size)
    assert [seed for chunk in chunks for seed in chunk] == [seed for each in apart for seed in each]
    assert all(1 <= len(chunk) <= size for chunk in chunks)


def test_a_file_that_is_not_finished_counts_for_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path), "b")
    store.create()
    store.write(range(8), b"whole", "1")
    (Path(store.path) / f".{file_name(range(8, 16))}.2").write_bytes(b"half")
    assert list(store.parts()) == [range(8)]
    assert parse_file_name("part-x.parquet") is None


def test_another_way_of_running_is_another_build() -> None:
    assert digest_build(0, "") == digest_build(0, "")
    assert len({digest_build(0, ""), digest_build(100, ""), digest_build(0, "no_epoch_check")}) == 3


def test_tasks_are_worth_their_start_and_end_together() -> None:
    assert choose_chunk_size(100, cores=2) == 8
    assert choose_chunk_size(1_000_000, cores=2) == 64
    assert choose_chunk_size(1_000, cores=2) == 31


def test_a_seed_that_breaks_the_simulator_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: object) -> None:
        raise RuntimeError("out of ideas")

    monkeypatch.setattr(run, "run_plan", broken)
    row = make_row(7, RunOptions())
    assert (row["seed"], row["property"]) == (7, run.CRASH)
    assert "RuntimeError: out of ideas" in row["detail"]
    assert set(row) == set(campaign_seeds.SCHEMA.names)


def test_a_row_names_the_command_that_shows_the_run_again() -> None:
    assert campaign.replay_command(7, RunOptions()) == "insync sim replay 7"
    assert campaign.replay_command(7, RunOptions(steps=100)) == "insync sim run --seeds 7 --steps 100"
    assert campaign.replay_command(7, RunOptions(mutant="x")) == "insync sim shrink 7 --mutant x"
