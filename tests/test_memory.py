"""Large buffers that come and go cost no page faults once they have been there."""

from __future__ import annotations

import subprocess
import sys

ROUNDS, SIZE = 50, 4 << 20
FAULTS = f"""
import resource, sys
from insync import memory
if sys.argv[1] == "keep":
    memory.keep_buffers()
def turn():
    held = [b"x" * {SIZE} for _ in range(3)]
    del held
turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str) -> int:
    return int(subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, check=True, text=True).stdout)


def test_buffers_of_megabytes_are_kept_for_the_next_ones() -> None:
    assert _faults("keep") < ROUNDS < _faults("leave")
