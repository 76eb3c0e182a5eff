"""Imports are read from the source: cycles are reported, and ARCHITECTURE.md agrees with the packages."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_architecture
import check_cycles
import draw_architecture
from import_graph import find_cycles, module_graph, package_graph
from written_block import NoBlockError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source tree of three packages and a shared module, without cycles."""
    root = tmp_path / "src" / "insync"
    write(root, "__init__.py", '__version__ = "1"\n')
    write(root, "sansio.py", "class Timer: ...\nclass Send: ...\nEvent = Timer\nEffect = Send\n")
    for package, text in {
        "wire": "from insync import sansio\n",
        "node": "from insync.wire import codec\n",
        "server": "import insync.node.codec\nimport insync.wire.codec\n",
    }.items():
        write(root, f"{package}/__init__.py", "")
        write(root, f"{package}/codec.py", text)
    return root


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


# --- the graph --------------------------------------------------------------------------------------------------------


def test_lazy_relative_and_type_checking_imports_count(source: Path) -> None:
    write(source, "wire/a.py", "def f() -> None:\n    from insync.wire import b\n")
    write(source, "wire/b.py", "from . import c\n")
    write(source, "wire/c.py", "if TYPE_CHECKING:\n    from ..wire.a import f\n")
    graph = module_graph(source)
    assert graph["insync.wire.a"] == {"insync.wire.b"}
    assert graph["insync.wire.b"] == {"insync.wire.c"}
    assert graph["insync.wire.c"] == {"insync.wire.a"}
    assert find_cycles(graph) == [["insync.wire.a", "insync.wire.b", "insync.wire.c"]]


def test_a_submodule_that_is_imported_from_its_package_is_no_import_of_the_package(source: Path) -> None:
    write(source, "wire/a.py", "from insync.wire import codec\n")
    write(source, "wire/b.py", "from insync.wire import KEY\n")
    graph = module_graph(source)
    assert graph["insync.wire.a"] == {"insync.wire.codec"}
    assert graph["insync.wire.b"] == {"insync.wire"}


def test_packages_import_what_their_modules_import(source: Path) -> None:
    packages = package_graph(module_graph(source))
    assert packages["server"] == {"node", "wire"}
    assert packages["wire"] == {"sansio"}


# --- cycles -----------------------------------------------------------------------------------------------------------


def test_a_cycle_is_named(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_cycles.main(source) == 0
    write(source, "wire/a.py", "from insync.wire import b\n")
    write(source, "wire/b.py", "from insync.wire.a import f\n")
    assert check_cycles.main(source) == 1
    assert capsys.readouterr().out == "import cycle: insync.wire.a, insync.wire.b\n"


# --- the picture ------------------------------------------------------------------------------------------------------


def test_the_picture_leaves_out_what_is_imported_through_others(source: Path) -> None:
    lines = draw_architecture.draw(source).splitlines()
    assert lines[1:4] == ["server  →  node", "node    →  wire", "wire"]
    assert lines[-2] == "  sansio"


def test_packages_that_import_each_other_cannot_be_drawn(source: Path) -> None:
    write(source, "wire/a.py", "from insync.node import codec\n")
    with pytest.raises(draw_architecture.ArchitectureError, match="node, wire"):
        draw_architecture.draw(source)


def test_the_picture_goes_between_its_markers() -> None:
    text = f"before\n{draw_architecture.BLOCK.begin}\nold\n{draw_architecture.BLOCK.end}\nafter\n"
    new = draw_architecture.BLOCK.replace(text, "new")
    assert new == text.replace("old", "new")
    with pytest.raises(NoBlockError, match="no block"):
        draw_architecture.BLOCK.replace("nothing", "new")


# --- the document -----------------------------------------------------------------------------------------------------

TABLE = "| `wire/` | x | `codec.py` |\n| `node/` | x | `codec.py` |\n| `server/` | x | `codec.py` |\n"


@pytest.fixture
def document(source: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A document that agrees with the source tree."""
    monkeypatch.setattr(check_architecture, "CLAIMS", {r"fewer than (\d+) lines": check_architecture.count_lines})
    root = source.parent.parent
    picture = f"{draw_architecture.BLOCK.begin}\n{draw_architecture.draw(source)}\n{draw_architecture.BLOCK.end}\n"
    path = root / "ARCHITECTURE.md"
    path.write_text(f"{picture}{TABLE}fewer than 50 lines: `sansio.py` has Timer and Send; `wire/codec.py`\n")
    assert check_architecture.problems(root) == []
    return path


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("node    →  wire", "node    →  sim", "the picture is out of date: python tools/draw_architecture.py --write"),
        ("| `wire/` | x | `codec.py` |\n", "", "the table has no row for wire/"),
        ("| `wire/`", "| `sim/` | x | |\n| `wire/`", "the table has a row for sim/, which is not there"),
        ("| `wire/` | x | `codec.py` |", "| `wire/` | x | `gone.py` |", "begin with wire/gone.py, which is not there"),
        ("`wire/codec.py`", "`wire/gone.py`", "names wire/gone.py, which is not there"),
        ("Timer and Send", "Send", "the event Timer is missing"),
        ("than 50", "than 100", "says 'fewer than 100 lines'; counted: 50"),
    ],
)
def test_what_disagrees_with_the_code_is_named(document: Path, old: str, new: str, problem: str) -> None:
    document.write_text(document.read_text().replace(old, new))
    problems = check_architecture.problems(document.parent)
    assert [line.removeprefix("ARCHITECTURE.md").lstrip(": ") for line in problems] == [problem]


def test_a_claim_that_was_removed_is_named(document: Path) -> None:
    document.write_text(document.read_text().replace("fewer than 50 lines", "short"))
    assert "no longer says" in check_architecture.problems(document.parent)[0]
