"""Rules that no code enforces or no test tests are reported, and citations of what does not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_rules

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with two rules, both enforced and tested."""
    _write(tmp_path, "docs/protocol/rules.md", "- **X1** first. **X2** second, on the same line.\n")
    _write(tmp_path, "src/insync/node/node.py", "y = 1  # X1: why\n")
    _write(tmp_path, "src/insync/quorum/log.py", 'def f() -> None:\n    raise ValueError("X2", "detail")\n')
    _write(
        tmp_path, "tests/node/test_node.py", 'def test_a() -> None:\n    """X1: it holds."""\n    # X2: it holds too.\n'
    )
    return tmp_path


def _write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_nothing_is_missing_when_every_rule_is_cited_by_code_and_by_a_test(tree: Path) -> None:
    assert check_rules.missing(tree) == []
    assert check_rules.main(tree) == 0


def test_a_rule_without_enforcing_code_is_named(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tree, "src/insync/node/node.py", "y = 1\n")
    assert check_rules.main(tree) == 1
    assert capsys.readouterr().out == "X1 is not cited by enforcing code\n"


def test_a_rule_without_a_test_is_named(tree: Path) -> None:
    _write(tree, "tests/node/test_node.py", 'def test_a() -> None:\n    """X1: it holds."""\n')
    assert check_rules.missing(tree) == ["X2 is not cited by a test"]


def test_the_simulator_and_the_command_line_enforce_nothing(tree: Path) -> None:
    _write(tree, "src/insync/node/node.py", "y = 1\n")
    _write(tree, "src/insync/sim/mutants.py", "# X1: removed here\n")
    _write(tree, "src/insync/cli/main.py", "# X1: shown here\n")
    assert check_rules.missing(tree) == ["X1 is not cited by enforcing code"]


def test_a_module_docstring_of_tests_is_no_test(tree: Path) -> None:
    _write(tree, "tests/node/test_node.py", '"""X1 and X2."""\n')
    assert check_rules.missing(tree) == ["X1 is not cited by a test", "X2 is not cited by a test"]


def test_a_scenario_cites_rules_in_its_comments(tree: Path) -> None:
    _write(tree, "tests/node/test_node.py", "")
    _write(tree, "src/insync/sim/scenario/library/one.scenario", "# X1, X2: two replicas\ncluster X1\n")
    assert check_rules.missing(tree) == []


def test_a_range_cites_its_ends_only() -> None:
    assert check_rules.cited_in_source('"""H1-H3, Q5..Q7."""\n') == {"H1", "H3", "Q5", "Q7"}


def test_code_cites_in_comments_docstrings_and_strings_that_open_with_the_id() -> None:
    source = '"""A1."""\nclass C:\n    """A2."""\n    x = "A3 named"  # A4\n    y = "see A5"\n    A6 = 1\n'
    assert check_rules.cited_in_source(source) == {"A1", "A2", "A3", "A4"}


def test_a_claim_of_a_rule_that_does_not_exist_is_named(tree: Path) -> None:
    _write(tree, "src/insync/node/apis/produce.py", "z = 1  # P9: no such rule\n")
    expected = "src/insync/node/apis/produce.py cites P9, which docs/protocol/rules.md does not define"
    assert check_rules.missing(tree) == [expected]


def test_a_wire_fact_that_nothing_cites_is_named(tree: Path) -> None:
    _write(tree, "docs/wire.md", "- **W1** a fact\n- **W2** another\n")
    _write(tree, "tests/wire/test_wire.py", "x = 1  # W1: see\n")
    assert check_rules.missing(tree) == ["W2 of docs/wire.md is cited by neither code nor a test"]


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("# W9", "cites W9, which docs/wire.md does not define"),
        ("# see NOTES.md", "names NOTES.md, which is not in the repository"),
        ("# see docs/adr/README.md", "names docs/adr/README.md, which is not in the repository"),
        ("# ADR 3", "cites ADR 3, which is not in docs/adr"),
        ("# trap 2", "cites 'trap 2': cite an id of docs/wire.md"),
    ],
)
def test_a_citation_of_something_that_does_not_exist_is_named(tree: Path, comment: str, problem: str) -> None:
    _write(tree, "src/insync/sim/world.py", f"x = 1\ny = 2  {comment}\n")
    assert check_rules.missing(tree) == [f"src/insync/sim/world.py:2 {problem}"]


def test_documents_and_decisions_that_exist_may_be_cited(tree: Path) -> None:
    _write(tree, "docs/adr/0003-decide.md", "# 3\n")
    _write(tree, "docs/wire.md", "**W1** a fact\n")
    _write(tree, "bench/run.py", '"""W1, ADR 3, docs/wire.md, 0003-decide.md."""\n')
    _write(tree, "src/insync/wire/a.py", "# W1: here\n")
    assert check_rules.missing(tree) == []


def test_an_empty_rules_document_is_a_problem_not_a_success(tree: Path) -> None:
    _write(tree, "docs/protocol/rules.md", "")
    assert check_rules.missing(tree) == ["no rules are defined in docs/protocol/rules.md"]


def test_the_repositorys_own_document_defines_every_family_in_full() -> None:
    sizes = "Q8 B9 M3 F7 D6 H5 I6 E8 T7 R6 P5 G3 A9 S19 L11"
    families = {family[0]: int(family[1:]) for family in sizes.split()}
    expected = [f"{letter}{number}" for letter, size in families.items() for number in range(1, size + 1)]
    assert check_rules.defined_rules((REPOSITORY / check_rules.RULES).read_text()) == expected
