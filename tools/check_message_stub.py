"""The stub of the messages is what tools/make_message_stub.py would write now."""

from __future__ import annotations

import sys
from pathlib import Path

import make_message_stub


def main(stub: Path = make_message_stub.STUB) -> int:
    if stub.exists() and stub.read_text(encoding="utf-8") == make_message_stub.make_stub():
        return 0
    print(f"{stub}: out of date; run `python tools/make_message_stub.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
