"""A report as one HTML file: no scripts, fonts or network access; readable on a phone and in dark mode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

GENERATOR = '<meta name="generator" content="insync">'
"""Identifies a page as ours: it may be overwritten."""
STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5c6b80; --paper: #ffffff; --panel: #f3f5f8; --line: #d5dbe3;
  --good: #12805c; --warn: #b8690f; --bad: #c22f2f; --main: #2b66c4; --idle: #9aa7b8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --soft: #98a6b8; --paper: #11161d; --panel: #1a212b;
  --line: #303a47; --good: #3fbf8f; --warn: #e39b45; --bad: #f06a6a; --main: #6ea2f2; --idle: #57647a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; }
p, li { overflow-wrap: anywhere; } .soft { color: var(--soft); font-size: 0.875rem; }
.verdict { padding: 0.75rem 1rem; border-left: 5px solid; background: var(--panel); margin: 1rem 0; }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: 0.5rem; }
.card { background: var(--panel); padding: 0.6rem 0.75rem; border-radius: 4px; }
.card b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; } .card.bad b { color: var(--bad); }
.card.warn b { color: var(--warn); }
.row { display: grid; grid-template-columns: 11.5rem 1fr; gap: 0.6rem; align-items: center; margin: 0.2rem 0; }
.row > span { font-size: 0.875rem; overflow-wrap: break-word; min-width: 0; line-height: 1.25; }
@media (max-width: 34rem) { .row { grid-template-columns: 1fr; gap: 0; margin: 0.5rem 0; } }
svg { display: block; width: 100%; background: var(--panel); border-radius: 3px; }
.times { display: flex; justify-content: space-between; font-size: 0.8rem; color: var(--soft); }
.axis { stroke: var(--line); vector-effect: non-scaling-stroke; }
.mark { stroke-width: 2; vector-effect: non-scaling-stroke; }
rect.good, path.good { fill: var(--good); } rect.warn, path.warn { fill: var(--warn); }
rect.bad, path.bad { fill: var(--bad); } rect.main, path.main { fill: var(--main); } rect.idle { fill: var(--idle); }
line.main { stroke: var(--main); } line.bad { stroke: var(--bad); } line.warn { stroke: var(--warn); }
.key { display: inline-block; width: 0.8rem; height: 0.8rem; border-radius: 2px; margin: 0 0.3rem 0 0.8rem;
  vertical-align: -0.05rem; }
.key.good { background: var(--good); } .key.warn { background: var(--warn); } .key.bad { background: var(--bad); }
.key.main { background: var(--main); } .key.idle { background: var(--idle); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
summary { cursor: pointer; color: var(--main); }
"""


def page(title: str, parts: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{GENERATOR}<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def verdict(text: str, *, good: bool) -> str:
    return f'<p class="verdict {"good" if good else "bad"}">{escape(text)}</p>'


def cards(values: Iterable[tuple[str, Any, str]]) -> str:
    """`values` are (label, value, class)."""
    rendered = (
        f'<div class="card {kind}"><b>{escape(str(value))}</b>{escape(label)}</div>' for label, value, kind in values
    )
    return f'<div class="cards">{"".join(rendered)}</div>'


def row(label: str, plot: str) -> str:
    """A long label is divided after a punctuation mark, or anywhere if it has none."""
    divided = re.sub(r"([._-]+)", r"\1<wbr>", escape(label))
    return f'<div class="row"><span>{divided}</span><div>{plot}</div></div>'


def times(*labels: str) -> str:
    inside = "".join(f"<span>{escape(label)}</span>" for label in labels)
    return f'<div class="row"><span></span><div class="times">{inside}</div></div>'


def keys(*entries: tuple[str, str]) -> str:
    """A legend of (class, meaning)."""
    rendered = (f'<span class="key {kind}"></span>{escape(text)}' for kind, text in entries)
    return f'<p class="soft">{"".join(rendered)}</p>'


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Numbers are right-aligned."""
    body, numeric = [], [False] * len(columns)
    for cells in rows:
        numeric = [isinstance(cell, int | float) for cell in cells]
        body.append("<tr>" + "".join(_cell("td", cell, n) for cell, n in zip(cells, numeric, strict=True)) + "</tr>")
    head = "".join(_cell("th", name, n) for name, n in zip(columns, numeric, strict=True))
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(body)}</table></div>'


def details(summary: str, inside: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def _cell(tag: str, value: Any, numeric: bool) -> str:
    text = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
    text = ", ".join(map(str, text)) if isinstance(text, list | tuple) else "" if text is None else str(text)
    return f"<{tag}{' class=n' if numeric else ''}>{escape(text)}</{tag}>"
