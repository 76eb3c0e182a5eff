"""`python -m insync.server FILE`: one node, with nothing imported that it does not need."""

from __future__ import annotations

import sys

# kio imports hypothesis where it finds it: 10 MB and a tenth of a second that a node has no use for.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]

from insync.server.process import main  # noqa: E402  only now

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
