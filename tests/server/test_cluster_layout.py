"""The layout that a cluster directory stores, and how it may change (B9)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from insync.quorum import state_file
from insync.quorum.config import METADATA_DIRECTORY
from insync.quorum.state_file import ElectionState
from insync.server import cluster_layout
from insync.server.cluster_layout import Layout, LayoutError, adapt, create, data_directory, load, save
from insync.server.storage_format import FormatError, format_directory
from insync.storage.posix import PosixDisk


def earlier_release(
    directory: Path, voters: dict[int, tuple[int, ...]], roles: str = "broker,controller", cluster_id: str = "c"
) -> None:
    """A directory whose cluster.json has only the cluster id. `voters`: by node, the voters in its quorum-state."""
    (directory / "cluster.json").write_text(json.dumps({"cluster_id": cluster_id}))
    for node_id, named in voters.items():
        data = data_directory(directory, node_id)
        format_directory(str(data), cluster_id=cluster_id, node_id=node_id)
        (data.parent / "node.properties").write_text(
            f"process.roles={roles}\ncontroller.quorum.voters=1@h:1,2@h:2\nnode.id={node_id}\n"
        )
        if named:
            disk = PosixDisk(str(data))
            state_file.make_directory_durable(disk, METADATA_DIRECTORY)
            state_file.persist(disk, f"{METADATA_DIRECTORY}/quorum-state", ElectionState(epoch=3), named)


def test_a_stored_layout_is_read_back(tmp_path: Path) -> None:
    """B9: nodes, roles, voters and the cluster's id."""
    for layout in (create("c", 5, None), create("c", 2, 3), create("c", None, None).all_formatted()):
        save(tmp_path, layout)
        assert load(tmp_path) == layout
    assert [create("c", *sizes).voters for sizes in ((5, 0), (1, 0), (2, 3))] == [(1, 2, 3), (1,), (3, 4, 5)]


def test_an_empty_directory_has_no_layout(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    assert load(tmp_path / "missing") is None


def test_added_brokers_do_not_vote(tmp_path: Path) -> None:
    """B9: a majority of more voters may lack what the old ones have committed."""
    grown = adapt(create("c", 1, None), tmp_path, 4, None)
    assert (grown.voters, grown.brokers, [node.id for node in grown.nodes]) == ((1,), 4, [1, 2, 3, 4])
    grown = adapt(create("c", 1, 3), tmp_path, 2, 3)
    assert (grown.voters, [node.id for node in grown.nodes if node.is_broker]) == ((2, 3, 4), [1, 5])


def test_a_request_for_fewer_brokers_or_other_voters_is_refused(tmp_path: Path) -> None:
    """B9: the message says what to do."""
    layout = create("c", 3, None)
    assert adapt(layout, tmp_path, None, None) == adapt(layout, tmp_path, 3, 0) == layout
    with pytest.raises(LayoutError, match=r"cluster of 3 brokers.* --brokers 3, or without --brokers"):
        adapt(layout, tmp_path, 2, None)
    with pytest.raises(LayoutError, match=r"0 separate controllers, not 3.* set-voters"):
        adapt(layout, tmp_path, 3, 3)


def test_the_layout_of_an_earlier_release_is_read_from_its_nodes(tmp_path: Path) -> None:
    """B9: the voters come from the quorum, not from a properties file that was written later."""
    earlier_release(tmp_path, {1: (1, 2, 3), 2: (1, 2, 3), 3: (1, 2, 3), 4: ()})
    layout = load(tmp_path)
    assert layout is not None
    assert (layout.cluster_id, layout.voters, layout.brokers) == ("c", (1, 2, 3), 4)
    (tmp_path / "cluster.json").unlink()
    assert load(tmp_path) == layout


def test_the_voters_of_nodes_that_never_ran_come_from_their_files(tmp_path: Path) -> None:
    earlier_release(tmp_path, {1: (), 2: ()})
    layout = load(tmp_path)
    assert layout is not None
    assert layout.voters == (1, 2)


@pytest.mark.parametrize(
    ("voters", "message"),
    [
        ({1: (1,), 2: (1, 2)}, "belong to different quorums: nodes .1. have the voters .1.; nodes .2. have"),
        ({1: (1, 2, 3), 2: (1, 2, 3)}, r"quorum names \(1, 2, 3\), and it holds the nodes \[1, 2\]"),
    ],
)
def test_nodes_that_contradict_each_other_are_refused(
    tmp_path: Path, voters: dict[int, tuple[int, ...]], message: str
) -> None:
    """B9: it is not known which of them is right."""
    earlier_release(tmp_path, voters)
    with pytest.raises(LayoutError, match=message):
        load(tmp_path)


def test_the_directory_of_a_node_is_not_one_of_a_cluster(tmp_path: Path) -> None:
    format_directory(str(tmp_path), cluster_id="c", node_id=1)
    with pytest.raises(LayoutError, match="is the directory of one node"):
        load(tmp_path)


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    earlier_release(tmp_path, {1: (), 2: ()})
    (tmp_path / "cluster.json").write_text('{"cluster_id": "other"}')
    with pytest.raises(LayoutError, match="several clusters"):
        load(tmp_path)


def test_a_node_that_lost_its_identity_is_not_left_out(tmp_path: Path) -> None:
    earlier_release(tmp_path, {1: (1, 2), 2: (1, 2)})
    (data_directory(tmp_path, 2) / "meta.properties").unlink()
    with pytest.raises(FormatError, match=r"holds data but no meta\.properties"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is damaged"),
        ('{"cluster_id"', "is damaged"),
        ('{"cluster_id": 7}', "is damaged"),
        ('{"version": 9, "cluster_id": "c"}', "has version 9; this release reads versions up to 1"),
        ('{"version": 1, "cluster_id": "c", "nodes": [], "voters": []}', "is damaged"),
        (
            '{"version": 1, "cluster_id": "c", "voters": [1],'
            ' "nodes": [{"id": 1, "roles": ["broker"], "formatted": true}]}',
            "contradict each other",
        ),
    ],
)
def test_a_damaged_or_newer_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """B9: it must not look like a new cluster."""
    (tmp_path / cluster_layout.FILE).write_text(text)
    with pytest.raises(LayoutError, match=message):
        load(tmp_path)


def test_voters_may_change_and_brokers_stay_brokers() -> None:
    layout: Layout = cluster_layout.with_voters(create("c", 5, None), (3, 4, 5))
    assert (layout.voters, layout.brokers) == ((3, 4, 5), 5)
