"""`python -m insync.server FILE` runs one node, and imports only what that needs."""

from __future__ import annotations

import sys

# kio imports hypothesis if it is installed: 10 MB and a tenth of a second that a node does not need.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]

from insync.server.process import main  # noqa: E402  after the line above

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
