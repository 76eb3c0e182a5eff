"""Runs a Spark action and reports its progress: the action runs in a thread, and Spark is polled for its tasks."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from pyspark.sql import SparkSession

T = TypeVar("T")

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, the number of finished tasks, and the number of all tasks."""
POLL_S = 0.3


def ignore_progress(what: str, done: int, total: int) -> None:
    """The default."""


def run_with_progress(
    spark: SparkSession, what: str, action: Callable[[], T], on_progress: OnProgress = ignore_progress
) -> T:
    """Returns what `action` returns. Ctrl-C cancels its jobs."""
    if on_progress is ignore_progress:
        return action()
    context, group = spark.sparkContext, uuid.uuid4().hex

    def run() -> T:
        context.setJobGroup(group, what, interruptOnCancel=True)
        return action()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run)
        try:
            while wait((future,), POLL_S).not_done:
                on_progress(what, *_count_tasks(spark, group))
        except KeyboardInterrupt:
            context.cancelJobGroup(group)
            raise
        total = max(1, _count_tasks(spark, group)[1])
        on_progress(what, total, total)
        return future.result()


def _count_tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    """(completed, all) of the stages that are known so far."""
    tracker = spark.sparkContext.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        known = tracker.getJobInfo(job)
        for stage in known.stageIds if known else ():
            info = tracker.getStageInfo(stage)
            if info:
                done, total = done + info.numCompletedTasks, total + info.numTasks
    return done, total
