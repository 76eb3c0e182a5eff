"""The process that libFuzzer runs in: python -m fuzz.guided TARGET CORPUS FINDINGS SECONDS SEED

Findings are saved, and fuzzing continues. Every second mutation is libFuzzer's own, the others follow the target's
format.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["insync"]):
    from fuzz import engine
    from fuzz.mutate import MAX_INPUT_BYTES
    from fuzz.targets import TARGETS


def main() -> None:
    name, corpus, findings, seconds, seed = sys.argv[1:]
    target = TARGETS[name]

    def run_one(data: bytes) -> None:
        finding = engine.examine(target, data)
        if finding is not None:
            finding.save(Path(findings))

    def mutate(data: bytes, max_size: int, chosen: int) -> bytes:
        if chosen % 2:
            mutated: bytes = atheris.Mutate(data, len(data) + 64)
            return mutated
        return target.mutate(bytes(data), Random(chosen))[:max_size]

    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-artifact_prefix={findings}/",
    ]
    options += ["-timeout=300", "-rss_limit_mb=4096", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, corpus], run_one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
