"""A node that starts from its damaged directory.

It serves what is intact, or waits for other voters (Q8). Damage on the disk breaks no invariant. Two kinds prevent a
start: a metadata record with a valid checksum that cannot be decoded (MalformedFrameError), and a file in the place of
a directory (NotADirectoryError).

The directory is that of a node that was shut down cleanly, or of one that was not.
"""

from __future__ import annotations

from functools import cache
from random import Random

from fuzz.archive import disk_of, mutate_files, pack_files, read_tree, unpack_files
from fuzz.one_node import OneNode
from fuzz.target import Target
from fuzz.targets import nodes
from insync.sansio import Shutdown
from insync.wire.errors import MalformedFrameError


def run(data: bytes) -> None:
    try:
        node = OneNode(disk_of(unpack_files(data)))
        node.advance(20_000)
        for frame in nodes.record_requests(node):
            node.receive(frame)
        node.advance(400_000)
    except (MalformedFrameError, NotADirectoryError):
        return
    if node.stop is not None:
        raise AssertionError(f"the node stopped: {node.stop.reason}")


@cache
def seeds() -> list[bytes]:
    made = []
    for clean in (False, True):
        node = nodes.start_prepared_node()
        node.advance(70_000)  # until the checkpoints are written
        if clean:
            node.deliver(Shutdown())
            node.advance(30_000)  # longer than the heartbeat interval
        made.append(pack_files(read_tree(node.disk)))
    return made


def mutate(data: bytes, rng: Random) -> bytes:
    return mutate_files(data, rng)


TARGET = Target(name="restarts", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=90)
