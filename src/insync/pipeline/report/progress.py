"""A Spark action that tells how far it is: it runs in a thread of its own, and Spark is asked about its tasks."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from pyspark.sql import SparkSession

T = TypeVar("T")

Tell = Callable[[str, int, int], None]
"""Called with what is being done, how many of its tasks are done, and how many there are."""
LOOK_EVERY_S = 0.3


def silent(what: str, done: int, total: int) -> None:
    """Nobody wants to know."""


def watched(spark: SparkSession, what: str, action: Callable[[], T], tell: Tell = silent) -> T:
    """What `action` returns. Ctrl-C cancels its jobs."""
    if tell is silent:
        return action()
    context, group = spark.sparkContext, uuid.uuid4().hex

    def run() -> T:
        context.setJobGroup(group, what, interruptOnCancel=True)
        return action()

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(run)
        try:
            while wait((working,), LOOK_EVERY_S).not_done:
                tell(what, *_tasks(spark, group))
        except KeyboardInterrupt:
            context.cancelJobGroup(group)
            raise
        total = max(1, _tasks(spark, group)[1])
        tell(what, total, total)
        return working.result()


def _tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    """Of all stages that are known so far: (completed, all)."""
    tracker = spark.sparkContext.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        known = tracker.getJobInfo(job)
        for stage in known.stageIds if known else ():
            info = tracker.getStageInfo(stage)
            if info:
                done, total = done + info.numCompletedTasks, total + info.numTasks
    return done, total
