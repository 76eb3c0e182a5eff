"""Links in documents lead to files, and the lock pins what pyproject.toml asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lock_input

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
WIDTH = 100
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_link_to_a_file_leads_to_one(document: Path) -> None:
    links = [link for link in LINK.findall(document.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_text_commands_and_code_are_at_most_100_columns_wide(document: Path) -> None:
    """Tables, addresses, settings and what programs print may be wider."""
    source = document.read_text(encoding="utf-8")
    text = re.sub(r"^```(text|properties)\n.*?^```$", "", source, flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith("|") and "://" not in line]
    assert [line for line in lines if len(line) > WIDTH] == []


def test_the_lock_pins_every_requirement_with_hashes_and_names_no_index() -> None:
    lock = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    requirements = lock_input.requirements((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    names = [re.split(r"[<>=!~ \[;]", requirement)[0].lower() for requirement in requirements]
    pinned = dict(re.findall(r"^([a-z0-9-]+)==\S+ \\\n\s+--hash=(sha256:\w{64})", lock, re.MULTILINE))
    assert [name for name in names if name not in pinned] == []
    assert len(pinned) == len(re.findall(r"^[a-z]", lock, re.MULTILINE))
    assert re.findall(r"://|--index-url|--find-links|--trusted-host", lock) == []
