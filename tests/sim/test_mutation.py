"""Mutation testing: which errors are made, that each is made in the running program, and that it is taken back."""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from insync.replication import divergence
from insync.sim.mutation.mutations import Mutation, applied, list_modules, list_mutations
from insync.sim.mutation.operators import find_edits, find_functions
from mutation import results
from mutation.results import Outcome, ResultFile, format_table, make_result, read_equivalents

SOURCE = '''
def decide(self, a, b):
    """Its docstring stays."""
    if a < b and b is not None:
        self.kept = a + 1
        self.write(b)
        return max(a, b)
    return False
'''


def edited_sources(source: str) -> dict[str, str]:
    """Operator -> the body with that error; each is taken back before the next."""
    tree = ast.parse(source)
    [(_, function)] = find_functions(tree)
    sources = {}
    for edit in find_edits(function):
        edit.apply()
        sources[edit.operator] = ast.unparse(function)
        edit.undo()
    assert ast.unparse(tree) == ast.unparse(ast.parse(source))
    return sources


@pytest.mark.parametrize(
    ("operator", "line"),
    [
        ("negate condition", "if not (a < b and b is not None):"),
        ("drop part 1 of condition", "if True and b is not None:"),
        ("drop part 2 of condition", "if a < b and True:"),
        ("Lt to LtE", "if a <= b and b is not None:"),
        ("IsNot to Is", "if a < b and b is None:"),
        ("Add to Sub", "self.kept = a - 1"),
        ("off by one", "self.kept = a + 2"),
        ("max to min", "return min(a, b)"),
        ("return None", "return max(a, b) if False else None"),
        ("False to True", "return True"),
    ],
)
def test_an_error_is_made(operator: str, line: str) -> None:
    lines = [text.strip() for text in edited_sources(SOURCE)[operator].splitlines()]
    assert line in lines
    assert '"""Its docstring stays."""' in lines


@pytest.mark.parametrize(("operator", "lost"), [("drop assign", "self.kept"), ("drop expr", "self.write")])
def test_a_statement_is_dropped(operator: str, lost: str) -> None:
    lines = [text.strip() for text in edited_sources(SOURCE)[operator].splitlines()]
    [at] = [at for at, line in enumerate(lines) if line.startswith(lost)]
    assert lines[at - 1] == "if False:"


def test_a_statement_that_only_names_a_value_is_not_dropped() -> None:
    """Without it the next line would fail at once: no test could miss that."""
    assert not any(operator.startswith("drop") for operator in edited_sources("def f(a):\n    b = a\n    return b\n"))


def test_annotations_and_text_for_people_stay() -> None:
    source = (
        "class A:\n def __repr__(self):\n  return f'{1}'\n def f(self, a: Range[0]) -> Bound[1]:\n  b: Bound[2] = a\n"
    )
    edits = {name: list(find_edits(function)) for name, function in find_functions(ast.parse(source))}
    assert edits == {"A.f": []}


def mutation_of(function: str, operator: str) -> Mutation:
    mutations = [m for m in list_mutations(["insync.replication.divergence"]) if m.function == function]
    return next(mutation for mutation in mutations if mutation.operator == operator)


def test_a_mutation_is_in_the_program_only_while_it_is_applied() -> None:
    lower_end: Callable[[int, int, int], int] = divergence.lower_end
    assert lower_end(5, 7, 9) == 5
    with applied(mutation_of("lower_end", "min to max")) as functions:
        assert functions == 1
        assert lower_end(5, 7, 9) == 9
    assert lower_end(5, 7, 9) == 5


def test_functions_are_found_after_their_modules_were_frozen() -> None:
    gc.freeze()
    with applied(mutation_of("lower_end", "min to max")) as functions:
        assert functions == 1


def test_mutations_compile_and_find_their_functions() -> None:
    """Some of them: each looks through all objects of the process."""
    for mutation in [*list_mutations(["insync.replication.divergence", "insync.quorum.election"])][::40]:
        with applied(mutation) as functions:
            assert functions >= 1, mutation


def test_the_decision_modules_have_thousands_of_mutations_with_keys_of_their_own() -> None:
    keys = [mutation.key for mutation in list_mutations(list_modules())]
    assert len(keys) > 5_000
    assert len(set(keys)) == len(keys)


# --- results ---


def test_a_later_run_continues_the_file_of_results(tmp_path: Path) -> None:
    mutation = mutation_of("lower_end", "min to max")
    ResultFile(tmp_path / "results.jsonl").add(make_result(mutation, Outcome.SURVIVED, ""))
    again = ResultFile(tmp_path / "results.jsonl")
    assert again.results[mutation.key].outcome == Outcome.SURVIVED


def test_the_table_counts_what_was_judged() -> None:
    mutation = mutation_of("lower_end", "min to max")
    outcomes = (Outcome.UNIT, Outcome.UNIT, Outcome.SIM, Outcome.SURVIVED, Outcome.EQUIVALENT)
    table = format_table([make_result(mutation, outcome, "") for outcome in outcomes], {"replication": 40})
    assert "| replication | 40 | 5 | 2 | 1 | 1 | 1 | 75.0 % |" in table.splitlines()


def test_every_equivalent_mutation_exists_and_has_a_reason() -> None:
    known = {results.place_in_file(mutation) for mutation in list_mutations(list_modules())}
    file = Path(results.__file__).with_name("equivalent.txt")
    for place, reason in read_equivalents(file).items():
        assert place in known
        assert reason
