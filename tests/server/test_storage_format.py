"""A directory belongs to one node of one cluster, and is formatted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from insync.server import storage_format
from insync.server.storage_format import FormatError, check_identity, format_directory, new_cluster_id


def test_a_formatted_directory_says_whose_it_is(tmp_path: Path) -> None:
    format_directory(str(tmp_path), cluster_id="c1", node_id=2)
    assert check_identity(str(tmp_path), 2)[0] == "c1"
    assert (tmp_path / "meta.properties").read_text().splitlines()[1:2] == ["node.id=2"]


def test_a_formatted_directory_is_not_formatted_again(tmp_path: Path) -> None:
    format_directory(str(tmp_path), cluster_id="c1", node_id=2)
    before = (tmp_path / "meta.properties").read_bytes()
    with pytest.raises(FormatError, match="node 2 of cluster c1"):
        format_directory(str(tmp_path), cluster_id="c2", node_id=3)
    assert (tmp_path / "meta.properties").read_bytes() == before


def test_another_nodes_directory_is_refused(tmp_path: Path) -> None:
    format_directory(str(tmp_path), cluster_id="c1", node_id=2)
    with pytest.raises(FormatError, match="belongs to node 2"):
        check_identity(str(tmp_path), 3)


def test_a_directory_that_was_never_formatted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="insync format"):
        storage_format.read_identity(str(tmp_path))


def test_cluster_ids_look_like_kafkas() -> None:
    first, second = new_cluster_id(), new_cluster_id()
    assert first != second
    assert len(first) == 22
