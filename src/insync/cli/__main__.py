"""`python -m insync.cli`: the `insync` command of this interpreter."""

from __future__ import annotations

from insync.cli.main import app

if __name__ == "__main__":
    app(prog_name="insync")
