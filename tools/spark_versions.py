"""Tests of the Spark sources with other versions of PySpark, each in an environment of its own under build/.

    python tools/spark_versions.py [--connect] VERSION...

An environment has PySpark and what that version needs (with --connect, also Spark Connect's packages); everything else
comes from the environment that runs this.
"""

from __future__ import annotations

import argparse
import os
import site
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = "interop/spark_versions"
CONNECT = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard", "protobuf")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    parser.add_argument("--connect", action="store_true", help="run the test with Spark Connect instead of the matrix")
    arguments = parser.parse_args()
    failed = [version for version in arguments.versions if not run_tests(version, connect=arguments.connect)]
    if failed:
        print(f"failed with PySpark {', '.join(failed)}")
    return 1 if failed else 0


def run_tests(version: str, *, connect: bool) -> bool:
    python = make_environment(version, connect=connect)
    print(f"--- PySpark {version}", flush=True)
    test = f"{TESTS}/test_spark_connect.py" if connect else f"{TESTS}/test_version_matrix.py"
    environment = os.environ | {"INSYNC_PYSPARK": version, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [str(python), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def make_environment(version: str, *, connect: bool) -> Path:
    directory = ROOT / "build" / f"spark-{version}{'-connect' if connect else ''}"
    python = directory / "bin" / "python"
    complete = directory / ".complete"
    if not complete.exists():
        venv.create(directory, with_pip=True)
        packages = [f"pyspark=={version}", *(CONNECT if connect else ())]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (own,) = directory.glob("lib/python*/site-packages")
        (own / "insync-environment.pth").write_text("".join(f"{path}\n" for path in site.getsitepackages()))
        complete.touch()
    return python


if __name__ == "__main__":
    sys.exit(main())
