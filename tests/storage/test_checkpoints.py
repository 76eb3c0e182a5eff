"""Kafka's small text files, to the byte."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from insync.sim.engine.disk import SimDisk
from insync.storage import checkpoints
from insync.storage import disk as disks


def test_offset_checkpoints_are_kafkas_text() -> None:
    data = checkpoints.encode_offsets({("b", 0): 7, ("a", 10): 3, ("a", 2): 5})
    assert data == b"0\n3\na 2 5\na 10 3\nb 0 7\n"
    assert checkpoints.decode_offsets(data) == {("b", 0): 7, ("a", 10): 3, ("a", 2): 5}


@pytest.mark.parametrize("data", [b"", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na x 1\n", b"\xff\xfe"])
def test_a_damaged_checkpoint_reads_as_none(data: bytes) -> None:
    assert checkpoints.decode_offsets(data) is None
    assert checkpoints.decode_epochs(data) is None


def test_epoch_checkpoints_are_kafkas_text() -> None:
    assert checkpoints.encode_epochs([(0, 1), (1, 2)]) == b"0\n2\n0 1\n1 2\n"
    assert checkpoints.decode_epochs(b"0\n2\n0 1\n1 2\n") == [(0, 1), (1, 2)]


def test_partition_metadata_holds_the_topic_id_in_kafkas_base64_and_the_partition() -> None:
    metadata_topic = UUID(int=1)
    encoded = checkpoints.encode_partition_metadata(metadata_topic, 7)
    assert encoded == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\npartition: 7"
    assert checkpoints.decode_partition_metadata(encoded) == (metadata_topic, 7)
    as_of_kafka = checkpoints.encode_partition_metadata(metadata_topic, None)
    assert as_of_kafka == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert checkpoints.decode_partition_metadata(as_of_kafka) == (metadata_topic, None)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"version: 0\n",
        b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"version: 0\ntopic_id: AAAA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\npartition: x",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\npartition: -1",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\npartition; 0",
        b"version: 0\ntopic_id: AAAAAAAAA\xbeAAAAAAAAAAAQ\npartition: 0",
        b"version: 0\ntopic_id",
    ],
)
def test_damaged_partition_metadata_is_recognised(damaged: bytes) -> None:
    assert checkpoints.decode_partition_metadata(damaged) is None


def test_meta_properties_name_cluster_node_and_directory() -> None:
    data = checkpoints.encode_meta_properties(cluster_id="Mk3OEYBSQ6i5dw7AmAAAAA", node_id=3, directory_id=UUID(int=9))
    assert checkpoints.decode_meta_properties(data) == {
        "version": "1",
        "cluster.id": "Mk3OEYBSQ6i5dw7AmAAAAA",
        "node.id": "3",
        "directory.id": "AAAAAAAAAAAAAAAAAAAACQ",
    }


class StoppedError(Exception):
    pass


class StoppingDisk(SimDisk):
    """The process dies before the named operation."""

    stop_at = ""

    def rename(self, source: str, target: str) -> None:
        self._stop_before("rename")
        super().rename(source, target)

    def sync_dir(self, path: str) -> None:
        self._stop_before("sync_dir")
        super().sync_dir(path)

    def _stop_before(self, step: str) -> None:
        if self.stop_at == step:
            raise StoppedError


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("stop_at", ["rename", "sync_dir"])
def test_an_interrupted_atomic_write_leaves_the_old_or_the_new_content(seed: int, stop_at: str) -> None:
    disk = StoppingDisk()
    disks.write_atomically(disk, "f", b"old")
    disk.stop_at = stop_at
    with pytest.raises(StoppedError):
        disks.write_atomically(disk, "f", b"new content")
    disk.lossy_crash(Random(seed), corrupt=True)
    assert disks.read_all(disk, "f") in (b"old", b"new content")


@pytest.mark.parametrize("seed", range(20))
def test_a_finished_atomic_write_survives_a_power_loss(seed: int) -> None:
    disk = SimDisk()
    disks.write_atomically(disk, "f", b"old")
    disks.write_atomically(disk, "f", b"new content")
    disk.lossy_crash(Random(seed), corrupt=True)
    assert disks.read_all(disk, "f") == b"new content"
