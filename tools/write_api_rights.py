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

DOCUMENT = Path("docs/guides/security.md")
BEGIN = "<!-- rights: written by tools/write_api_rights.py --write -->"
END = "<!-- end of rights -->"


def make_table() -> str:
    """In the order of the API keys."""
    lines = ["| API | needs | without it |", "|---|---|---|"]
    for api in APIS.values():
        rights = HANDLERS[api.key].rights
        lines.append(f"| {api.class_prefix} | {rights.needs} | {rights.refusal or '-'} |")
    return "\n".join(lines)


def replace_block(text: str, table: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{DOCUMENT} has no block between '{BEGIN}' and '{END}'")
    return f"{before}{begin}\n{table}\n{end}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description="The table of what each API needs.")
    parser.add_argument("--write", action="store_true", help=f"Write it to {DOCUMENT}.")
    if parser.parse_args().write:
        DOCUMENT.write_text(replace_block(DOCUMENT.read_text(encoding="utf-8"), make_table()), encoding="utf-8")
    else:
        print(make_table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
