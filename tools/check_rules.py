"""Rules and citations agree: every rule is enforced and tested, and whatever is cited exists.

- A rule of docs/protocol/rules.md is cited by code that enforces it and by a test; a fact of docs/wire.md by either.
- Code cites an id in a comment (`# I2: ...`), in a docstring, or in a string that starts with it, as
  `InvariantError("S7", ...)` does. The simulator and the command line enforce nothing, so their citations do not
  count. A test cites an id in a comment or in the docstring of a function or class; the docstring of a test module is
  a table of contents, not a test. A range such as H1-H3 cites its two ends only, so that grep finds every id.
- Markdown files and ADRs that code names are in the repository.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from problems import report

RULES = Path("docs/protocol/rules.md")
WIRE_FACTS = Path("docs/wire.md")
ADRS = Path("docs/adr")
SOURCE = Path("src/insync")
TESTS = Path("tests")
SCENARIOS = Path("src/insync/sim/scenario/library")
CITING = ("src", "tests", "bench", "tools", "fuzz", "interop")
ENFORCES_NOTHING = ("sim", "cli", "console", "testing")

DEFINED = re.compile(r"\*\*([A-Z]\d+)\*\*")
CITED = re.compile(r"\b([A-Z]\d{1,2})\b")
OPENS_WITH = re.compile(r"#?\s*([A-Z]\d{1,2})(?=[:,.\s]|$)")
CLAIM = re.compile(r"#\s*([QBMFDHIETRPGASL]\d{1,2}):")
WIRE_FACT = re.compile(r"\bW\d{1,2}\b")
DOCUMENT = re.compile(r"(?<![\w./:{-])([\w./-]+\.md)\b")
ADR = re.compile(r"\bADR (\d+)")
TRAP = re.compile(r"\btrap \d+", re.IGNORECASE)


def defined_rules(text: str) -> list[str]:
    """The ids in bold, in the document's order; one line may define several."""
    return list(dict.fromkeys(DEFINED.findall(text)))


def cited_in_source(text: str) -> set[str]:
    """Ids in comments, in docstrings, and at the start of other strings."""
    cited = _ids(_comments(text))
    tree = ast.parse(text)
    docstrings = list(_docstrings(tree, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            start = OPENS_WITH.match(node.value)
            cited.update(start.groups() if start else ())
    return cited | _ids(docstrings)


def cited_in_test(text: str) -> set[str]:
    """Ids in comments and in the docstrings of functions and classes."""
    docstrings = _docstrings(ast.parse(text), (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    return _ids(_comments(text)) | _ids(docstrings)


def cited_in_scenario(text: str) -> set[str]:
    """Ids in the comment lines of a scenario file."""
    return _ids(line for line in text.splitlines() if line.lstrip().startswith("#"))


def unknown_claims(text: str, known: Iterable[str]) -> list[str]:
    """Comments of the form `# X9: ...` whose id no rule has."""
    claims = (match.group(1) for match in map(CLAIM.match, _comments(text)) if match)
    return sorted({claim for claim in claims if claim not in known})


def missing(root: Path = Path()) -> list[str]:
    """Everything that is wrong, one sentence a line."""
    return [*_rule_problems(root), *_citation_problems(root)]


def _rule_problems(root: Path) -> list[str]:
    rules = defined_rules((root / RULES).read_text(encoding="utf-8"))
    enforced: set[str] = set()
    tested: set[str] = set()
    problems: list[str] = []
    for path in _source_files(root / SOURCE):
        text = path.read_text(encoding="utf-8")
        enforced |= cited_in_source(text)
        problems += [
            f"{path.relative_to(root)} cites {rule}, which {RULES} does not define"
            for rule in unknown_claims(text, rules)
        ]
    for path in sorted((root / TESTS).rglob("*")):
        if path.suffix == ".py":
            tested |= cited_in_test(path.read_text(encoding="utf-8"))
    for path in sorted((root / SCENARIOS).glob("*.scenario")):
        tested |= cited_in_scenario(path.read_text(encoding="utf-8"))
    problems += [f"no rules are defined in {RULES}"] if not rules else []
    problems += [f"{rule} is not cited by enforcing code" for rule in rules if rule not in enforced]
    problems += [f"{rule} is not cited by a test" for rule in rules if rule not in tested]
    problems += [
        f"{fact} of {WIRE_FACTS} is cited by neither code nor a test"
        for fact in _wire_facts(root)
        if fact not in enforced | tested
    ]
    return problems


def _citation_problems(root: Path) -> list[str]:
    facts = _wire_facts(root)
    documents = {path.name for path in root.rglob("*.md") if ".venv" not in path.parts}
    adrs = {int(path.name[:4]) for path in (root / ADRS).glob("[0-9]*.md")}

    def problems_of(line: str) -> Iterator[str]:
        for fact in WIRE_FACT.findall(line):
            if fact not in facts:
                yield f"cites {fact}, which {WIRE_FACTS} does not define"
        for name in DOCUMENT.findall(line):
            if not ((root / name).exists() if "/" in name else name in documents):
                yield f"names {name}, which is not in the repository"
        for adr in ADR.findall(line):
            if int(adr) not in adrs:
                yield f"cites ADR {adr}, which is not in {ADRS}"
        for trap in TRAP.findall(line):
            yield f"cites '{trap}': cite an id of {WIRE_FACTS}"

    problems: list[str] = []
    for path in _citing_files(root):
        text = path.read_text(encoding="utf-8")
        if any(pattern.search(text) for pattern in (WIRE_FACT, DOCUMENT, ADR, TRAP)):  # parsing takes far longer
            problems += [
                f"{path.relative_to(root)}:{number} {problem}"
                for number, line in _prose(text)
                for problem in problems_of(line)
            ]
    return problems


def _wire_facts(root: Path) -> list[str]:
    path = root / WIRE_FACTS
    return defined_rules(path.read_text(encoding="utf-8")) if path.exists() else []


def _citing_files(root: Path) -> Iterator[Path]:
    own = (Path("tools/check_rules.py"), Path("tests/tools/test_check_rules.py"))  # their examples do not exist
    for folder in CITING:
        for path in sorted((root / folder).rglob("*.py")):
            if path.relative_to(root) not in own:
                yield path


def _source_files(source: Path) -> Iterator[Path]:
    for path in sorted(source.rglob("*.py")):
        if path.relative_to(source).parts[0] not in ENFORCES_NOTHING:
            yield path


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Lines of comments and docstrings, with their numbers."""
    yield from _numbered_comments(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for at, line in enumerate(node.value.value.splitlines()):
                yield node.lineno + at, line


@cache
def _numbered_comments(text: str) -> list[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def _comments(text: str) -> list[str]:
    return [comment for _, comment in _numbered_comments(text)]


def _docstrings(tree: ast.Module, kinds: tuple[type[ast.AST], ...]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, kinds) and isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            yield ast.get_docstring(node) or ""


def _ids(texts: Iterable[str]) -> set[str]:
    return {rule for text in texts for rule in CITED.findall(text)}


def main(root: Path = Path()) -> int:
    return report(missing(root))


if __name__ == "__main__":
    sys.exit(main())
