"""The guides that use Apache Kafka's tools run as they are printed: see tests/tools/test_document_blocks.py."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from document_blocks import KAFKA, documents_that_need, run_document
from interop.java import kafka_tools


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with Kafka's tools by the names of its scripts."""
    directory = tmp_path_factory.mktemp("bin")
    for name, main in kafka_tools.CLASSES.items():
        script = directory / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(kafka_tools.command(main))} "$@"\n')
        script.chmod(0o755)
    return directory


@pytest.mark.parametrize("document", documents_that_need(KAFKA), ids=lambda document: document.name)
def test_every_block_of_a_document_runs(document: Path, tmp_path: Path, commands: Path) -> None:
    outputs = run_document(document, tmp_path, commands=commands)
    first, *_ = outputs.values()
    assert "orders" in first.splitlines()
    assert "payload: 5000" in "".join(outputs.values())
