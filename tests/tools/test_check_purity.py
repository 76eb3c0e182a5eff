"""The purity check finds what would make two runs of one seed differ, and lets everything else pass."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_purity

BAD = {
    "a clock": ("import time\n", "import of time"),
    "a clock's function": ("from time import monotonic\n", "import of time"),
    "the time of day": ("from datetime import datetime\nx = datetime.now()\n", "datetime.datetime.now"),
    "the time of day under another name": ("import datetime as d\nx = d.date.today()\n", "datetime.date.today"),
    "a socket": ("import socket\n", "import of socket"),
    "an event loop": ("import asyncio\n", "import of asyncio"),
    "a coroutine": ("async def f(): ...\n", "async def"),
    "a thread": ("from threading import Lock\n", "import of threading"),
    "a pool": ("from concurrent.futures import ThreadPoolExecutor\n", "import of concurrent.futures"),
    "the operating system": ("import os.path\n", "import of os.path"),
    "a path that opens files": ("from pathlib import Path\n", "import of pathlib"),
    "a file": ("def f(p: str) -> bytes:\n    return open(p, 'rb').read()\n", "open()"),
    "secrets": ("import secrets\n", "import of secrets"),
    "the shared random source": ("import random\nx = random.random()\n", "random.random"),
    "a function of the shared source": ("from random import choice\n", "random.choice"),
    "a random source of one's own": ("from random import Random\nx = Random(1)\n", "Random()"),
    "a random id": ("import uuid\nx = uuid.uuid4()\n", "uuid.uuid4"),
    "a random id by its bare name": ("from uuid import UUID, uuid4\n", "uuid.uuid4"),
    "a bare assert": ("def f(x: int) -> None:\n    assert x\n", "assert"),
    "a print": ("print('hello')\n", "print()"),
    "an address": ("def f(x: object) -> int:\n    return id(x)\n", "id()"),
    "a hash": ("def f(x: str) -> int:\n    return hash(x) % 3\n", "hash()"),
}

SETS = {
    "a literal": "for x in {1, 2}: pass",
    "a call": "for x in set(y): pass",
    "a frozen call": "z = [x for x in frozenset(y)]",
    "a difference": "z = [x for x in set(a) - set(b)]",
    "a method": "for x in set(a).union(b): pass",
    "a list of a set": "z = list({x for x in y})",
    "a joined set": "z = ','.join({'a', 'b'})",
    "a starred set": "z = (*{1, 2},)",
    "a local name": "def f():\n    s = set()\n    for x in s: pass",
    "a parameter": "def f(s: set[int]) -> None:\n    for x in s: pass",
    "an attribute": "class A:\n  def __init__(self):\n    self.s = set()\n  def f(self):\n    return tuple(self.s)",
}

GOOD = {
    "a random source handed in": "from random import Random\ndef f(rng: Random) -> float:\n    return rng.random()",
    "a type of the random module": "import random\ndef f(rng: random.Random) -> float:\n    return rng.random()",
    "ids that are not random": "from uuid import UUID\nZERO = UUID(int=0)",
    "timestamps made of numbers": "from datetime import datetime, UTC\nx = datetime.fromtimestamp(0, UTC)",
    "a method called open": "def f(disk):\n    return disk.open('x')",
    "a field called time": "def f(record):\n    return record.time, record.id",
    "a hash inside __hash__": "class A:\n    def __hash__(self) -> int:\n        return hash((1, 2))",
    "a sorted set": "for x in sorted({1, 2}): pass",
    "membership": "def f(x: int, y: tuple[int, ...]) -> bool:\n    return x in set(y)",
    "a question to a set": "z = any(x > 1 for x in {1, 2})",
    "a set of a set": "z = {x + 1 for x in {1, 2}}",
    "an intersection that is only counted": "z = len(set(a) & set(b))",
    "a name that is a set elsewhere": "def f():\n s = set()\n return len(s)\ndef g(s: list[int]):\n for x in s: pass",
    "a dict": "for x in dict.fromkeys(y): pass",
}


@pytest.mark.parametrize(("source", "what"), BAD.values(), ids=BAD.keys())
def test_code_that_reaches_outside_is_reported(source: str, what: str) -> None:
    assert [finding.what for finding in check_purity.check(source)][-1:] == [what]


@pytest.mark.parametrize("source", SETS.values(), ids=SETS.keys())
def test_iteration_over_a_set_is_reported(source: str) -> None:
    assert [finding.what for finding in check_purity.check(source)] == ["iteration over a set"]


@pytest.mark.parametrize("source", GOOD.values(), ids=GOOD.keys())
def test_pure_code_passes(source: str) -> None:
    assert check_purity.check(source) == []


def test_a_finding_names_file_line_and_reason() -> None:
    findings = check_purity.check("x = 1\nimport time\n", "src/insync/wire/clock.py")
    assert [str(finding) for finding in findings] == [
        "src/insync/wire/clock.py:2: import of time: the time is an argument (now)"
    ]


def test_the_core_is_every_protocol_package_but_the_real_disk_and_the_shells(tmp_path: Path) -> None:
    for name in ("storage/log.py", "storage/posix.py", "sim/engine.py", "server/loop.py", "node/node.py", "sansio.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("import time\n")
    files = [str(path.relative_to(tmp_path)) for path in check_purity.core_files(tmp_path)]
    assert files == ["storage/log.py", "node/node.py", "sansio.py"]
    assert check_purity.main(tmp_path) == 1


def test_a_pure_tree_passes(tmp_path: Path) -> None:
    (tmp_path / "wire").mkdir()
    (tmp_path / "wire" / "batch.py").write_text("import struct\n")
    assert check_purity.main(tmp_path) == 0
