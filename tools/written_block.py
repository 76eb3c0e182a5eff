"""Blocks of documents that a tool writes: the text between two markers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class NoBlockError(Exception):
    """The document has no place for the text."""


@dataclass(frozen=True)
class WrittenBlock:
    document: Path
    name: str
    tool: str
    """The script that writes it with --write."""

    @property
    def begin(self) -> str:
        return f"<!-- {self.name}: written by tools/{self.tool} --write -->"

    @property
    def end(self) -> str:
        return f"<!-- end of {self.name} -->"

    def replace(self, text: str, content: str) -> str:
        """`text` with the content between the markers."""
        before, begin, rest = text.partition(self.begin)
        _, end, after = rest.partition(self.end)
        if not begin or not end:
            raise NoBlockError(f"{self.document} has no block between '{self.begin}' and '{self.end}'")
        return f"{before}{begin}\n{content}\n{end}{after}"

    def write(self, content: str, root: Path = Path()) -> None:
        document = root / self.document
        document.write_text(self.replace(document.read_text(encoding="utf-8"), content), encoding="utf-8")
