"""`insync rule ID`: the paragraph of the protocol's rules, properties and wire facts with this id."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from insync.cli.exits import failure, usage_error

DOCUMENTS = ("protocol/rules.md", "wire.md")
PACKAGED = Path(__file__).parent / "documents"
"""Where a wheel has them; a clone has them in docs/."""
CLONE = Path(__file__).parents[3] / "docs"
_PARAGRAPH = re.compile(r"^- (\*\*[A-Z]\d+\b.*?)(?=^- |^\s*$|^#|\Z)", re.MULTILINE | re.DOTALL)
_IDS = re.compile(r"\*\*([A-Z]\d+)\b")


def complete_ids(incomplete: str) -> list[str]:
    return [name for name in read_rules() if name.startswith(incomplete.upper())]


def rule(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Such as B4, S1 or W3; default: all.", autocompletion=complete_ids),
    ] = None,
) -> None:
    """Print rules of the protocol by their ids, as code, errors and scenarios cite them."""
    rules = read_rules()
    for name in ids or ():
        if name.upper() not in rules:
            similar = get_close_matches(name.upper(), rules, n=3, cutoff=0.5)
            hint = f" Did you mean {', '.join(similar)}?" if similar else " `insync rule` prints all."
            raise usage_error(f"there is no rule '{name}'.{hint}")
    chosen = dict.fromkeys(rules[name.upper()] for name in ids) if ids else dict.fromkeys(rules.values())
    typer.echo("\n\n".join(chosen))


def read_rules() -> dict[str, str]:
    """The paragraph of each id, without Markdown's marks."""
    directory = PACKAGED if PACKAGED.is_dir() else CLONE
    rules: dict[str, str] = {}
    for document in DOCUMENTS:
        try:
            text = (directory / document).read_text(encoding="utf-8")
        except OSError as error:
            raise failure(f"{error.filename}: {error.strerror}. The rules are not installed with this copy") from None
        for paragraph in _PARAGRAPH.findall(text):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph).replace("**", "").rstrip()
            rules |= dict.fromkeys(_IDS.findall(paragraph), re.sub(r"\n  ", "\n", plain))
    return rules
