"""The blocks of commands and code in a Markdown document, so that tests can run them as they are printed.

A block in `sh` or `python` is run. The blocks of a document run one after the other in one directory, in one Bash and
one Python: what a block exports, defines or starts, the next ones use. A block that defines tests is run by pytest. The
`insync` command of this environment is first on the PATH, and ports from 9092 on are replaced by free ones; nothing
else is changed.

A line before a block may say what it needs, or why it cannot be run anywhere:

    <!-- needs Java -->
    <!-- needs Apache Kafka -->
    <!-- not run: needs a package index -->
"""

from __future__ import annotations

import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

REPOSITORY = Path(__file__).parents[1]
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs" / "guides").glob("*.md"))]
FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^\n]+?) -->\n)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TESTS = re.compile(r"^def test_", re.MULTILINE)
RUNNABLE = ("sh", "python")
OTHER_LANGUAGES = ("text", "properties")
JAVA, KAFKA = "Java", "Apache Kafka"
NEEDS = (JAVA, KAFKA)
REASONS = (
    "changes the clone",
    "needs a package index",
    "needs a schema registry",
    "needs a bucket",
    "needs a Spark cluster",
    "takes too long",
)
PORTS = range(9092, 9098)
BLOCK_TIMEOUT_S = 240.0


@dataclass(frozen=True, slots=True)
class Block:
    document: str
    line: int
    language: str
    text: str
    needs: str | None = None
    """What it takes to run it, besides insync."""
    reason: str | None = None
    """Why it is not run."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def read_blocks(document: Path) -> list[Block]:
    """The blocks that can be run, in their order."""
    return [block for block in _all_blocks(document) if block.language in RUNNABLE]


def _all_blocks(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    blocks = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("text"))
        kind, _, what = (match["note"] or "").partition(" ")
        needs = what if kind == "needs" else None
        reason = what.removeprefix("run: ") if kind == "not" else None
        blocks.append(Block(document.name, line, match["language"], match["text"], needs, reason))
    return blocks


def find_mistakes(document: Path) -> list[str]:
    """Blocks with an unknown language, need or reason."""
    mistakes = []
    for block in _all_blocks(document):
        for what, value, known in (
            ("language", block.language, (*RUNNABLE, *OTHER_LANGUAGES)),
            ("need", block.needs, (None, *NEEDS)),
            ("reason not to run it", block.reason, (None, *REASONS)),
        ):
            if value not in known:
                names = ", ".join(name for name in known if name is not None)
                mistakes.append(f"{block}: the {what}, {value!r}, is not one of: {names}")
    return mistakes


def document_needs(document: Path) -> set[str]:
    """What the blocks of a document need that are run."""
    return {block.needs for block in read_blocks(document) if block.needs is not None}


def documents_that_need(what: str | None) -> list[Path]:
    """The documents with blocks of which some need this, besides insync; with None, of which no block needs more."""
    wanted = set() if what is None else {what}
    return [document for document in DOCUMENTS if read_blocks(document) and document_needs(document) == wanted]


def run_document(document: Path, directory: Path, *, commands: Path | None = None) -> dict[int, str]:
    """Run all blocks of a document; returns the output of each by its line.

    `commands` is a directory with commands besides `insync`. Raises AssertionError with the output of a block that
    fails, and ends every process that they leave behind.
    """
    with Session(directory, commands) as session:
        return {block.line: session.run(block) for block in read_blocks(document) if block.reason is None}


class Session:
    """A Bash and a Python in one directory, which run the blocks that they are given."""

    def __init__(self, directory: Path, commands: Path | None = None) -> None:
        self._directory = directory.resolve()
        self._ports = dict(zip(PORTS, _free_port_range(len(PORTS)), strict=True))
        path = [Path(sys.executable).parent, *([] if commands is None else [commands]), os.environ["PATH"]]
        self._environment = environment = {
            **os.environ,
            "PATH": os.pathsep.join(str(part) for part in path),
            "INSYNC_BOOTSTRAP": f"localhost:{self._ports[PORTS[0]]}",
            "INSYNC_RUNTIME_DIR": str(self._directory / ".insync-clusters"),
        }
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed in __exit__
        self._shell = _Interpreter(["bash", "-e"], directory, environment, self._output)
        self._python = _Interpreter([sys.executable, "-c", PYTHON_LOOP], directory, environment, self._output)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if any(self._directory.glob(".insync-clusters/*.sock")):  # of clusters that a block left in the background
            subprocess.run([sys.executable, "-m", "insync.cli", "down", "--all"], env=self._environment, check=False)
        self._shell.end()
        self._python.end()
        self._output.close()

    def run(self, block: Block) -> str:
        """Its output."""
        file = self._directory / f"line_{block.line}.{'py' if block.language == 'python' else 'sh'}"
        file.write_text(self._with_free_ports(block.text), encoding="utf-8")
        start = self._output.seek(0, os.SEEK_END)
        if block.language == "sh":
            code = self._shell.run(f". {file} </dev/null; echo >&{self._shell.done}")
        elif TESTS.search(block.text):
            pytest = f"python -m pytest -q -p no:cacheprovider {file} </dev/null"
            code = self._shell.run(f"{pytest}; echo >&{self._shell.done}")
        else:
            code = self._python.run(f"{file} {self._python.done}")
        self._output.seek(start)
        output = self._output.read().decode(errors="replace")
        if code != 0:
            what = "did not end in time" if code is None else f"exit code {code}"
            raise AssertionError(f"{block}: {what}\n{output}")
        return output

    def _with_free_ports(self, text: str) -> str:
        for port, free in self._ports.items():
            text = text.replace(str(port), str(free))
        return text


PYTHON_LOOP = """
import os, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    file, done = line.split()
    exec(compile(open(file).read(), file, "exec"), names)
    sys.stdout.flush()
    os.write(int(done), b"0")
"""


class _Interpreter:
    """A process that reads commands from a pipe, writes to another one when a command is done, and ends if it fails."""

    def __init__(self, command: list[str], directory: Path, environment: dict[str, str], output: IO[bytes]) -> None:
        self._ends, self.done = os.pipe()
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(self.done,),
            start_new_session=True,
        )
        os.close(self.done)

    def run(self, line: str) -> int | None:
        """The exit code of a line that writes to `done` at its end; None if it did not end in time."""
        if self._process.stdin is not None:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        deadline = time.monotonic() + BLOCK_TIMEOUT_S
        while time.monotonic() < deadline:
            if select.select([self._ends], [], [], 0.05)[0] and os.read(self._ends, 1):
                return 0
            if (code := self._process.poll()) is not None:
                return code or 1
        return None

    def end(self) -> None:
        """End it, with everything that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with self._process:
            os.close(self._ends)


def _free_port_range(count: int) -> list[int]:
    """Consecutive ports that were free a moment ago, none of which the system gives to outgoing connections."""
    for _ in range(100):
        first = random.randrange(15_000, 30_000)
        if all(_is_free(first + offset) for offset in range(count)):
            return [first + offset for offset in range(count)]
    raise OSError(f"no {count} consecutive ports are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
