"""A directory belongs to one node of one cluster, and is formatted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from insync.server.storage_format import FormatError, check_identity, format_directory, new_cluster_id, read_identity


def formatted(directory: Path) -> bytes:
    format_directory(str(directory), cluster_id="c1", node_id=2)
    return (directory / "meta.properties").read_bytes()


def test_a_formatted_directory_has_its_identity(tmp_path: Path) -> None:
    """B9: cluster, node and directory have ids."""
    formatted(tmp_path)
    identity = check_identity(str(tmp_path), 2, "c1")
    assert (identity.cluster_id, identity.node_id) == ("c1", 2)
    assert (tmp_path / "meta.properties").read_text().splitlines()[1:2] == ["node.id=2"]
    format_directory(str(tmp_path / "other"), cluster_id="c1", node_id=3)
    assert read_identity(str(tmp_path / "other")).directory_id != identity.directory_id


def test_a_formatted_directory_is_not_formatted_again(tmp_path: Path) -> None:
    before = formatted(tmp_path)
    with pytest.raises(FormatError, match="node 2 of cluster c1"):
        format_directory(str(tmp_path), cluster_id="c2", node_id=3)
    assert (tmp_path / "meta.properties").read_bytes() == before


def test_another_nodes_directory_is_refused(tmp_path: Path) -> None:
    """B9: so is one of another cluster."""
    formatted(tmp_path)
    with pytest.raises(FormatError, match="belongs to node 2, not to node 3"):
        check_identity(str(tmp_path), 3)
    with pytest.raises(FormatError, match="belongs to cluster c1, not to cluster c2"):
        check_identity(str(tmp_path), 2, "c2")


def test_a_directory_that_was_never_formatted_is_refused(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FormatError, match="insync format"):
            read_identity(str(directory))
    assert not (tmp_path / "missing").exists()
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match="is not a directory"):
        read_identity(str(tmp_path / "file"))


def test_data_without_identity_does_not_count_as_an_empty_directory(tmp_path: Path) -> None:
    """B9: meta.properties is missing beside logs. Only an operator knows their node."""
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    for attempt in (lambda: read_identity(str(tmp_path)), lambda: formatted(tmp_path)):
        with pytest.raises(FormatError, match=r"holds data but no meta\.properties"):
            attempt()
    format_directory(str(tmp_path), cluster_id="c1", node_id=2, existing_data=True)
    assert check_identity(str(tmp_path), 2).cluster_id == "c1"


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    """B9: wherever it was truncated, half of an id does not count as an id."""
    whole = formatted(tmp_path)
    for size in range(len(whole)):
        (tmp_path / "meta.properties").write_bytes(whole[:size])
        with pytest.raises(FormatError, match="is damaged"):
            read_identity(str(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"version=1", b"version=2", "has version 2; this release reads versions up to 1"),
        (b"version=1", b"version=0", "is damaged"),
        (b"node.id=2", b"node.id=x", "is damaged"),
        (b"directory.id=", b"directory.id=!", "is damaged"),
    ],
)
def test_a_newer_or_invalid_file_is_refused(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    """B9: a newer format version may mean anything."""
    (tmp_path / "meta.properties").write_bytes(formatted(tmp_path).replace(old, new))
    with pytest.raises(FormatError, match=message):
        read_identity(str(tmp_path))


def test_cluster_ids_look_like_kafkas() -> None:
    first, second = new_cluster_id(), new_cluster_id()
    assert first != second
    assert len(first) == 22
