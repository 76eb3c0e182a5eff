"""The guide says what the code checks."""

from __future__ import annotations

from pathlib import Path

import write_api_rights

REPOSITORY = Path(__file__).parents[2]


def test_the_guide_has_the_rights_that_each_api_needs() -> None:
    """A1. If it fails: python tools/write_api_rights.py --write"""
    text = (REPOSITORY / write_api_rights.BLOCK.document).read_text(encoding="utf-8")
    assert write_api_rights.BLOCK.replace(text, write_api_rights.make_table()) == text
