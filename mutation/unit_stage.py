"""The unit tests as judges: a plugin of pytest that runs, instead of all tests, each mutation's tests.

First every test runs once, and the functions that it calls are written down. Then, for each mutation, a forked process
runs the tests that call the changed function, the quickest first, until one fails.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from insync.sim.mutation.mutations import Mutation, applied
from mutation.forks import run_forked

PASSED = "passed"
SPARE_S = 10.0
SLOWDOWN = 6.0
"""How much longer tests may take with a mutation, besides the spare time."""
MAX_TESTS_S = 40.0
"""Of tests for one mutation; the slowest are left out."""

Place = tuple[str, str, int]


class UnitStage:
    """`report` gets each mutation with PASSED or the test that failed."""

    def __init__(
        self,
        mutations: Sequence[Mutation],
        files: dict[str, str],
        *,
        jobs: int,
        cache: Path,
        report: Callable[[Mutation, str], None],
    ) -> None:
        self._mutations = mutations
        self._modules = files
        """File of a module -> its name."""
        self._jobs = jobs
        self._cache = cache
        self._report = report
        self._items: dict[str, pytest.Item] = {}
        self._callers: dict[str, list[str]] = {}
        """MODULE:FUNCTION -> tests that call it, the quickest first."""
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        self._load_or_make_map()
        work = [(mutation, self._tests_of(mutation)) for mutation in self._mutations]
        for (mutation, _), said in run_forked(work, self._judge, jobs=self._jobs, limit_s=self._limit):
            self._report(mutation, said)
        return True

    def _tests_of(self, mutation: Mutation) -> list[str]:
        chosen: list[str] = []
        total = 0.0
        for test in self._callers.get(f"{mutation.module}:{mutation.function}", ()):
            total += self._seconds[test]
            if total > MAX_TESTS_S:
                break
            chosen.append(test)
        return chosen

    def _limit(self, work: tuple[Mutation, list[str]]) -> float:
        return SPARE_S + SLOWDOWN * sum(self._seconds[test] for test in work[1])

    def _judge(self, work: tuple[Mutation, list[str]]) -> str:
        mutation, tests = work
        items = [self._items[test] for test in tests]
        with applied(mutation):
            for item, following in zip(items, [*items[1:], None], strict=True):
                if not _passes(item, following):
                    return item.nodeid
        return PASSED

    # --- which tests call which function ---

    def _load_or_make_map(self) -> None:
        """The map is made again when a file of the tree has changed."""
        digest = self._digest()
        if self._cache.exists():
            stored = json.loads(self._cache.read_text())
            if stored["digest"] == digest:
                self._callers, self._seconds = stored["callers"], stored["seconds"]
                return
        self._make_map()
        self._cache.parent.mkdir(parents=True, exist_ok=True)
        stored = {"digest": digest, "callers": self._callers, "seconds": self._seconds}
        self._cache.write_text(json.dumps(stored))

    def _digest(self) -> str:
        files = sorted({item.path for item in self._items.values()} | {Path(file) for file in self._modules})
        content = b"".join(file.read_bytes() for file in files)
        return hashlib.sha256(content + repr(sorted(self._items)).encode()).hexdigest()

    def _make_map(self) -> None:
        callers: dict[str, list[str]] = defaultdict(list)
        items = list(self._items.values())
        for at, item in enumerate(items):
            seen: set[CodeType] = set()
            began = time.perf_counter()
            sys.setprofile(self._watch(seen))
            try:
                passed = _passes(item, items[at + 1] if at + 1 < len(items) else None)
            finally:
                sys.setprofile(None)
            if not passed:
                print(f"{item.nodeid} fails without a mutation; it judges none", file=sys.stderr)
                continue
            self._seconds[item.nodeid] = time.perf_counter() - began
            for name in {self._function_of(code) for code in seen}:
                callers[name].append(item.nodeid)
        self._callers = {name: sorted(tests, key=self._seconds.__getitem__) for name, tests in callers.items()}

    def _watch(self, seen: set[CodeType]) -> Callable[[FrameType, str, Any], None]:
        modules = self._modules

        def on_event(frame: FrameType, event: str, _argument: Any) -> None:
            if event == "call" and frame.f_code.co_filename in modules:
                seen.add(frame.f_code)

        return on_event

    def _function_of(self, code: CodeType) -> str:
        """What stands inside a function belongs to it."""
        return f"{self._modules[code.co_filename]}:{code.co_qualname.partition('.<locals>')[0]}"


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))
