"""Every rule of docs/protocol/rules.md is enforced somewhere and tested somewhere; this says which are not.

Code cites a rule by its id: in a comment (`# I2: ...`), a docstring, or a string that opens with it, as
`InvariantError("S7", ...)` does. The simulator and the command line enforce nothing, so what they cite does not
count. A test cites a rule in the docstring of the test or its class, or in a comment; a module's docstring is a table
of contents, not a test. A range such as H1-H3 cites its two ends only, so that every id can be found by grep.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

RULES = Path("docs/protocol/rules.md")
SOURCE = Path("src/insync")
TESTS = Path("tests")
SCENARIOS = Path("src/insync/sim/scenario/library")
ENFORCES_NOTHING = ("sim", "cli", "console", "testing")

DEFINED = re.compile(r"\*\*([A-Z]\d+)\*\*")
CITED = re.compile(r"\b([A-Z]\d{1,2})\b")
OPENS_WITH = re.compile(r"#?\s*([A-Z]\d{1,2})(?=[:,.\s]|$)")
CLAIM = re.compile(r"#\s*([QBMFDHIETRPGSL]\d{1,2}):")


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
            found = OPENS_WITH.match(node.value)
            cited.update(found.groups() if found else ())
    return cited | _ids(docstrings)


def cited_in_test(text: str) -> set[str]:
    """Ids in comments and in the docstrings of functions and classes."""
    docstrings = _docstrings(ast.parse(text), (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    return _ids(_comments(text)) | _ids(docstrings)


def cited_in_scenario(text: str) -> set[str]:
    """Ids in the comment lines of a scenario file."""
    return _ids(line for line in text.splitlines() if line.lstrip().startswith("#"))


def unknown_claims(text: str, known: Iterable[str]) -> list[str]:
    """Comments of the form `# X9: ...` whose id no rule has: a slip of the pen."""
    claims = (found.group(1) for found in map(CLAIM.match, _comments(text)) if found)
    return sorted({claim for claim in claims if claim not in known})


def missing(root: Path = Path()) -> list[str]:
    """What is wrong, one sentence a line; empty when every rule is cited by code and by a test."""
    rules = defined_rules((root / RULES).read_text(encoding="utf-8"))
    enforced: set[str] = set()
    tested: set[str] = set()
    problems: list[str] = []
    for path in _source_files(root / SOURCE):
        enforced |= cited_in_source(path.read_text(encoding="utf-8"))
        unknown = unknown_claims(path.read_text(encoding="utf-8"), rules)
        problems += [f"{path.relative_to(root)} cites {rule}, which {RULES} does not define" for rule in unknown]
    for path in sorted((root / TESTS).rglob("*")):
        if path.suffix == ".py":
            tested |= cited_in_test(path.read_text(encoding="utf-8"))
    for path in sorted((root / SCENARIOS).glob("*.scenario")):
        tested |= cited_in_scenario(path.read_text(encoding="utf-8"))
    problems += [f"no rules are defined in {RULES}"] if not rules else []
    problems += [f"{rule} is not cited by enforcing code" for rule in rules if rule not in enforced]
    problems += [f"{rule} is not cited by a test" for rule in rules if rule not in tested]
    return problems


def _source_files(source: Path) -> Iterator[Path]:
    for path in sorted(source.rglob("*.py")):
        if path.relative_to(source).parts[0] not in ENFORCES_NOTHING:
            yield path


def _comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def _docstrings(tree: ast.Module, kinds: tuple[type[ast.AST], ...]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, kinds) and isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            yield ast.get_docstring(node) or ""


def _ids(texts: Iterable[str]) -> set[str]:
    return {rule for text in texts for rule in CITED.findall(text)}


def main(root: Path = Path()) -> int:
    problems = missing(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
