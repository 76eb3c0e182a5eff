"""`insync version`: what runs here."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import typer

from insync.cli.options import AsJson
from insync.cli.output import print_json
from insync.version import __version__

PACKAGES = ("kio", "typer", "uvloop", "cryptography", "confluent-kafka", "pyspark", "pyarrow", "numba")


def version(as_json: AsJson = False) -> None:
    """Print the versions of insync, of Python and of what it uses."""
    system = os.uname()
    versions = {
        "insync": __version__,
        "python": platform.python_version(),
        "system": f"{system.sysname} {system.release} {system.machine}",
    }
    versions |= {package: _installed(package) for package in PACKAGES}
    if as_json:
        print_json(versions)
        return
    for name, value in versions.items():
        typer.echo(f"{name:<16}{value}")


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
