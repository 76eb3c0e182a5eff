"""README.md and the guides with Spark in them run as they are printed: see tests/tools/test_document_blocks.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from document_blocks import JAVA, documents_that_need, read_blocks, run_document


@pytest.mark.parametrize("document", documents_that_need(JAVA), ids=lambda document: document.name)
def test_every_block_of_a_document_runs(document: Path, tmp_path: Path) -> None:
    outputs = run_document(document, tmp_path)
    blocks = [block for block in read_blocks(document) if block.reason is None]
    assert list(outputs) == [block.line for block in blocks]
    consumed = [outputs[block.line] for block in blocks if "insync consume" in block.text]
    assert all("hello" in output and "world" in output for output in consumed)
