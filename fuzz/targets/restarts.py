"""A node's whole directory, damaged, and a node that starts from it.

It comes up and serves what is intact, or waits for other voters (Q8). Bytes on a disk are damage and break no
invariant. What keeps a node from starting: a metadata record with a right checksum that cannot be decoded
(MalformedFrameError), and a file in the place of one of its directories (NotADirectoryError).

The directory is one of a node that was shut down cleanly, or was not.
"""

from __future__ import annotations

from functools import cache
from random import Random

from fuzz.archive import disk_of, mutated_files, packed, read_tree, unpacked
from fuzz.one_node import OneNode
from fuzz.target import Target
from fuzz.targets import nodes
from insync.sansio import Shutdown
from insync.wire.errors import MalformedFrameError


def run(data: bytes) -> None:
    try:
        node = OneNode(disk_of(unpacked(data)))
        node.advance(20_000)
        for frame in nodes.first_records(node):
            node.receive(frame)
        node.advance(400_000)
    except (MalformedFrameError, NotADirectoryError):
        return


@cache
def seeds() -> list[bytes]:
    made = []
    for clean in (False, True):
        node = nodes.prepared()
        node.advance(70_000)  # until the checkpoints are written
        if clean:
            node.tell(Shutdown())
            node.advance(10_000)
        made.append(packed(read_tree(node.disk)))
    return made


def mutate(data: bytes, rng: Random) -> bytes:
    return mutated_files(data, rng)


TARGET = Target(name="restarts", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=90)
