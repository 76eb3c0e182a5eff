"""A mirror without Spark: its tasks run in this process, one after the other.

    python -m tests.pipeline.mirror_here SOURCE TARGET STATE TOPIC BATCHES

mirrors in short rounds, and kills itself after so many batches, before the state counts the last one. If the number is
even, that batch is stored by then; otherwise it is on its way.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from insync.pipeline.fenced_sender import Sender
from insync.pipeline.mirror import job, verify
from insync.pipeline.mirror.job import MirrorOptions, MirrorSummary
from insync.pipeline.mirror.verify import Comparison
from insync.pipeline.rounds import ClusterOptions

T = TypeVar("T")
R = TypeVar("R")
NO_SPARK: Any = None


def run_tasks(spark: object, tasks: Sequence[T], execute: Callable[[T], R], **_: object) -> list[R]:
    return [execute(pickle.loads(pickle.dumps(task))) for task in tasks]


def make_options(source: str, target: str, state: Path, *topics: str, **changes: Any) -> MirrorOptions:
    pairs = [(name, renamed or name) for name, _, renamed in (topic.partition("=") for topic in topics)]
    clusters = {"source": ClusterOptions(bootstrap=source), "target": ClusterOptions(bootstrap=target)}
    return MirrorOptions(**{**clusters, "state": str(state), "topics": dict(pairs), **changes})


def mirror(options: MirrorOptions, offsets_per_round: int = job.OFFSETS_PER_ROUND) -> MirrorSummary:
    with patch.object(job, "run_tasks", run_tasks), patch.object(job, "OFFSETS_PER_ROUND", offsets_per_round):
        return job.run(NO_SPARK, options)


def compare(options: MirrorOptions) -> Comparison:
    with patch.object(verify, "run_tasks", run_tasks):
        return verify.compare_clusters(NO_SPARK, options)


def kill_after(batches: int) -> None:
    put, sent = Sender.put, 0

    async def put_or_kill(sender: Sender, data: bytes, position: int, count: int) -> None:
        nonlocal sent
        await put(sender, data, position, count)
        sent += 1
        if sent == batches:
            if batches % 2 == 0:
                await sender.drain()
            os.kill(os.getpid(), signal.SIGKILL)

    patch.object(Sender, "put", put_or_kill).start()


if __name__ == "__main__":
    source, target, state, topic, batches = sys.argv[1:]
    kill_after(int(batches))
    mirror(make_options(source, target, Path(state), topic, follow=True, interval_s=0.05), offsets_per_round=300)
