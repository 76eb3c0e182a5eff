"""Seeds on Spark executors."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from insync.pipeline.campaign import job as campaign
from insync.pipeline.campaign.job import CampaignOptions
from insync.pipeline.campaign.seeds import RunOptions, make_row
from insync.sim.checks.probes import PROBES

pytestmark = pytest.mark.xdist_group("spark")

SHORT = RunOptions(steps=200)


def test_a_campaign_continues_where_it_was_stopped(spark: SparkSession, tmp_path: Path) -> None:
    options = CampaignOptions(range(6), str(tmp_path), SHORT, chunk=2)
    first = campaign.run(spark, options)
    assert (first.seeds, first.ran, first.violations) == (6, 6, 0)
    assert set(first.probes) == set(PROBES)
    assert first.seeds_per_probe["isr_expanded"] <= 6
    parts = sorted(Path(first.path).glob("part-*.parquet"))
    assert len(parts) == 3
    parts[1].unlink()
    second = campaign.run(spark, CampaignOptions(range(7), str(tmp_path), SHORT, chunk=2))
    assert (second.seeds, second.ran) == (7, 3)
    rows = {row["seed"]: row for row in campaign.read_stored(spark, options).collect()}
    assert sorted(rows) == list(range(6))
    assert rows[3]["trace_hash"] == make_row(3, SHORT)["trace_hash"]


def test_a_removed_safeguard_is_found_and_can_be_reproduced(spark: SparkSession, tmp_path: Path) -> None:
    options = RunOptions(mutant="truncate-to-hwm")
    frame = campaign.seeds_frame(spark, range(6), options).cache()
    summary = campaign.summarise(frame, CampaignOptions(range(6), str(tmp_path), options), "", ran=6)
    assert summary.violations == len(summary.failures) > 0
    failure = summary.failures[0]
    assert make_row(failure.seed, options)["property"] == failure.property
    assert failure.replay == f"insync sim shrink {failure.seed} --mutant truncate-to-hwm"
    violations = campaign.select_violations(frame).orderBy("seed").collect()
    assert violations[0]["property"] == failure.property
