"""Coverage-guided fuzzing with atheris, Google's fuzzer for Python, where it is installed.

atheris is not a dependency: `make fuzz` installs it in build/fuzz/tools, outside the environment. Every target runs in
its own process (`guided`), because libFuzzer ends the process that it runs in.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz.engine import Finding, Report
from fuzz.target import Target

TOOLS = Path("build/fuzz/tools")
TIMEOUT_MARGIN_S = 300


def is_available() -> bool:
    tried = subprocess.run(
        [sys.executable, "-c", "import atheris"], env=_environment(), capture_output=True, check=False
    )
    return tried.returncode == 0


def fuzz(target: Target, *, seconds: float, seed: int, corpus: Path) -> Report:
    corpus.mkdir(parents=True, exist_ok=True)
    for at, data in enumerate(target.seeds()):
        (corpus / f"seed-{at:04d}").write_bytes(data)
    with tempfile.TemporaryDirectory() as findings:
        command = [
            sys.executable,
            "-m",
            "fuzz.guided",
            target.name,
            str(corpus),
            findings,
            str(int(seconds)),
            str(seed),
        ]
        started = time.monotonic()
        process = subprocess.run(
            command, env=_environment(), capture_output=True, timeout=seconds + TIMEOUT_MARGIN_S, check=False
        )
        report = Report(target.name, _executions(process.stderr), time.monotonic() - started)
        for path in sorted(Path(findings).glob("*.txt")):
            signature, _, trace = path.read_text().partition("\n")
            report.findings[signature] = Finding(target.name, path.with_suffix("").read_bytes(), signature, trace)
    if process.returncode:  # native code crashed, or the process could not start: exceptions do not end it
        report.findings["the process ended"] = _process_finding(target, process.stderr)
    return report


def _executions(stderr: bytes) -> int:
    units = re.search(rb"stat::number_of_executed_units: (\d+)", stderr)
    return int(units[1]) if units else 0


def _process_finding(target: Target, stderr: bytes) -> Finding:
    artifact = re.search(rb"Test unit written to (\S+)", stderr)
    data = Path(artifact[1].decode()).read_bytes() if artifact else b""
    return Finding(target.name, data, "the process ended", stderr.decode(errors="replace")[-4_000:])


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(TOOLS.absolute()), str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}
