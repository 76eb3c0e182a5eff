"""The blocks of commands and code in a Markdown document, so that tests can run them as they are printed.

A block in `sh` or `python` is run. One that cannot be run here has a line before it that says why:

    <!-- not run: needs Java -->

Ports from 9092 on are replaced by free ones; nothing else is changed. The blocks of a document run one after the other
in one directory, in Bash, with the `insync` command of this environment first on the PATH.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUNNABLE = ("sh", "python")
REASONS = ("needs Java", "needs Apache Kafka", "needs a package index", "takes too long")
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Block:
    document: str
    line: int
    language: str
    text: str
    reason: str | None
    """Why it is not run."""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def read_blocks(document: Path) -> list[Block]:
    """The runnable blocks in their order; a reason that is not one of REASONS is an error."""
    text = document.read_text(encoding="utf-8")
    blocks = []
    for match in FENCE.finditer(text):
        if match["language"] in RUNNABLE:
            line = text.count("\n", 0, match.start("text"))
            block = Block(document.name, line, match["language"], match["text"], match["reason"])
            if block.reason is not None and block.reason not in REASONS:
                raise ValueError(f"{block}: 'not run: {block.reason}' is not one of: {', '.join(REASONS)}")
            blocks.append(block)
    return blocks


def run_block(block: Block, directory: Path) -> str:
    """Its output. Raises AssertionError with the output if it fails, and ends every process that it leaves behind."""
    text = block.text
    ports = _free_port_range(3)
    for offset, port in enumerate(ports):
        text = text.replace(str(9092 + offset), str(port))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "INSYNC_BOOTSTRAP": f"localhost:{ports[0]}",
    }
    command = _command(block, text, directory)
    process = subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        _end_group(process.pid)
    if process.returncode != 0:
        raise AssertionError(f"{block}: exit code {process.returncode}\n{output}")
    return output


def _command(block: Block, text: str, directory: Path) -> list[str]:
    if block.language == "sh":
        return ["bash", "-e", "-c", text]
    file = directory / f"test_line_{block.line}.py"
    file.write_text(text, encoding="utf-8")
    if re.search(r"^def test_", text, re.MULTILINE):
        return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    return [sys.executable, str(file)]


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _free_port_range(count: int) -> list[int]:
    """Consecutive ports that were free a moment ago."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        if first + count < 65_000 and all(_is_free(first + offset) for offset in range(count)):
            return [first + offset for offset in range(count)]
    raise OSError(f"no {count} consecutive ports are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
