"""Build the wheel, install it outside the clone, and use it: version, a scenario, a cluster of real nodes.

    python tools/wheel_smoke.py [--directory build/wheel]

What an editable install hides is found here: a module, a scenario or an entry point that the wheel lacks. The
dependencies are those of the environment that runs this script, so nothing is downloaded. The cluster runs twice, the
second time without uvloop.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import kio

REPOSITORY = Path(__file__).resolve().parent.parent
CLUSTER = """
import sys
import insync
assert insync.__file__.startswith(sys.prefix), insync.__file__
from insync.client import topics
from insync.client.sync_client import SyncClient
from insync import Cluster
with Cluster(brokers=3, topics=["orders"]) as cluster:
    leader = cluster.leader_of("orders")
    cluster.kill(leader)
    cluster.wait_for_leader("orders", other_than=leader)
    with SyncClient(cluster.bootstrap) as client:
        assert client.call(lambda connected: topics.describe(connected, ["orders"]))
print("a cluster of three nodes survived the loss of a leader")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=REPOSITORY / "build" / "wheel", help="where the wheel goes")
    arguments = parser.parse_args()
    wheel = build_wheel(arguments.directory)
    with tempfile.TemporaryDirectory(prefix="insync-wheel-") as directory:
        use_wheel(wheel, Path(directory))
    print(f"{wheel.name} works")
    return 0


def build_wheel(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.whl"):
        old.unlink()
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory.resolve()), cwd=REPOSITORY)
    return next(directory.resolve().glob("*.whl"))


def use_wheel(wheel: Path, directory: Path) -> None:
    """In a virtual environment in `directory`, with the dependencies of the one that runs this."""
    environment = directory / "venv"
    venv.create(environment, with_pip=False)
    python = str(environment / "bin" / "python")
    _run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    dependencies = Path(kio.__file__).parents[1]
    site_packages = next((environment / "lib").glob("python3*/site-packages"))
    (site_packages / "dependencies.pth").write_text(f"{dependencies}\n")
    hidden = directory / "hidden"
    (hidden / "uvloop").mkdir(parents=True)
    (hidden / "uvloop" / "__init__.py").write_text("raise ImportError('hidden by the smoke test')\n")
    insync = str(environment / "bin" / "insync")
    _run(insync, "--version", cwd=directory)
    _run(insync, "sim", "scenario", "divergence_a", cwd=directory)
    _run(python, "-c", CLUSTER, cwd=directory)
    _run(python, "-c", CLUSTER, cwd=directory, without=hidden)


def _run(*command: str, cwd: Path | None = None, without: Path | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if without is not None:
        environment["PYTHONPATH"] = str(without)
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    print(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else f"ran {Path(command[0]).name}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
