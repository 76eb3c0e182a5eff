"""The command `python -m fuzz`: every target gets an equal share of the time, and findings are saved for `--replay`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from fuzz import coverage, engine
from fuzz.engine import Report
from fuzz.target import Target
from fuzz.targets import TARGETS

CRASHES = Path("build/fuzz/findings")
CORPUS = Path("build/fuzz/corpus")


def main() -> int:
    options = _options()
    if options.list:
        for target in TARGETS.values():
            print(f"{target.name:12} {target.about.strip().splitlines()[0]}")
        return 0
    if options.replay:
        return _replay(options.replay, options.target)
    chosen = [TARGETS[name] for name in options.target or TARGETS]
    share = options.seconds / len(chosen)
    guided = not options.plain and coverage.is_available()
    how = "coverage-guided (atheris)" if guided else "plain mutation: without atheris"
    print(f"{len(chosen)} targets, {share:.0f} s each, seed {options.seed}, {how}", flush=True)
    reports = [_fuzz(target, share, options.seed, guided) for target in chosen]
    return 1 if any(report.findings for report in reports) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Damaged input for insync's decoders.")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=None, help="of the mutations; without it every run differs")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="only this one; may be repeated")
    parser.add_argument("--plain", action="store_true", help="without atheris")
    parser.add_argument("--list", action="store_true", help="the targets")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one saved input again")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4), "big") >> 1
    return options


def _fuzz(target: Target, seconds: float, seed: int, guided: bool) -> Report:
    if guided:
        report = coverage.fuzz(target, seconds=seconds, seed=seed, corpus=CORPUS / target.name)
    else:
        report = engine.fuzz(target, seed=seed, seconds=seconds)
    print(f"{target.name:12} {report.executions:>9,} inputs  {report.rate:>8,.0f}/s  {len(report.findings)} findings")
    for finding in report.findings.values():
        path = finding.save(CRASHES)
        print(f"  {finding.signature}\n    {sys.executable} -m fuzz --replay {path}", flush=True)
    return report


def _replay(path: Path, targets: list[str] | None) -> int:
    """A saved input is named after its target."""
    name = targets[0] if targets else path.name.partition("-")[0]
    started = time.monotonic()
    finding = engine.examine(TARGETS[name], path.read_bytes())
    print(finding.trace if finding else f"{name}: nothing wrong ({time.monotonic() - started:.2f} s)")
    return 1 if finding else 0


if __name__ == "__main__":
    sys.exit(main())
