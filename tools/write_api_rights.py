"""Write the table of what each API needs, from the code that checks it, into docs/guides/security.md.

python tools/write_api_rights.py            # print it
python tools/write_api_rights.py --write    # put it between the markers
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from insync.node.handlers import HANDLERS
from insync.wire.apis import APIS
from written_block import WrittenBlock

BLOCK = WrittenBlock(Path("docs/guides/security.md"), "rights", "write_api_rights.py")


def make_table() -> str:
    """In the order of the API keys."""
    lines = ["| API | needs | without it |", "|---|---|---|"]
    for api in APIS.values():
        rights = HANDLERS[api.key].rights
        lines.append(f"| {api.class_prefix} | {rights.needs} | {rights.refusal or '-'} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="The table of what each API needs.")
    parser.add_argument("--write", action="store_true", help=f"Write it to {BLOCK.document}.")
    if parser.parse_args().write:
        BLOCK.write(make_table())
    else:
        print(make_table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
