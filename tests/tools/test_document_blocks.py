"""Commands and code in README.md and the guides run as they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

import document_blocks
from document_blocks import Block, read_blocks, run_block

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"
DOCUMENTS = [README, *sorted((REPOSITORY / "docs" / "guides").glob("*.md"))]


@pytest.mark.parametrize(
    "block", [block for block in read_blocks(README) if block.reason is None], ids=lambda block: f"line {block.line}"
)
def test_every_block_of_the_readme_runs(block: Block, tmp_path: Path) -> None:
    output = run_block(block, tmp_path)
    if "insync consume" in block.text:
        assert "hello" in output
        assert "world" in output


def test_most_of_the_readme_is_run() -> None:
    blocks = read_blocks(README)
    assert len([block for block in blocks if block.reason is None]) >= 4
    assert {block.language for block in blocks} == {"sh", "python"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_that_are_not_run_say_why(document: Path) -> None:
    for block in read_blocks(document):
        assert block.reason is None or block.reason in document_blocks.REASONS


def test_an_unknown_reason_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("<!-- not run: no time -->\n```sh\ntrue\n```\n")
    with pytest.raises(ValueError, match=r"a.md:2: 'not run: no time'"):
        read_blocks(tmp_path / "a.md")


def test_a_block_that_fails_shows_its_output(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text\n\n```sh\necho before\nfalse\necho after\n```\n")
    [block] = read_blocks(tmp_path / "a.md")
    with pytest.raises(AssertionError, match=r"a.md:3: exit code 1\nbefore\n$"):
        run_block(block, tmp_path)
