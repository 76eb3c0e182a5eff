"""What is missing is installed where that is possible; elsewhere the words to install it with are said."""

from __future__ import annotations

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "need_debian.sh"


def run(tmp_path: Path, *commands: str, user: int, apt: str | None) -> tuple[int, str, str]:
    """With a PATH of our own. `apt` is what apt-get does: a line of shell; None: there is no apt-get.
    (exit code, what it said, what apt-get was told)."""
    told = tmp_path / "told"
    told.touch()
    programs = {"id": f"echo {user}", "present": ":"} | (
        {} if apt is None else {"apt-get": f'echo "$@" >>{told}; {apt}'}
    )
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "env").symlink_to("/usr/bin/env")
    done = subprocess.run(
        ["/bin/sh", str(SCRIPT), *commands], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr, told.read_text()


def test_what_is_there_needs_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "present", user=0, apt="exit 1") == (0, "", "")


def test_root_installs_what_is_missing(tmp_path: Path) -> None:
    code, said, told = run(tmp_path, "present", "absent", user=0, apt=":")
    assert (code, said) == (0, "")
    assert told.splitlines() == ["update -qq", "install -y -qq --no-install-recommends absent"]


def test_a_command_may_be_in_a_package_of_another_name(tmp_path: Path) -> None:
    told = run(tmp_path, "present=thing", "absent=default-absent", user=0, apt=":")[2]
    assert told.splitlines()[-1] == "install -y -qq --no-install-recommends default-absent"


def test_others_are_told_what_to_install(tmp_path: Path) -> None:
    code, said, told = run(tmp_path, "absent", user=1000, apt=":")
    assert (code, told) == (0, "")
    assert "sudo apt-get install absent" in said


def test_a_machine_without_packages_is_told_too(tmp_path: Path) -> None:
    assert "Missing: absent." in run(tmp_path, "absent", user=0, apt=None)[1]


def test_an_installation_that_fails_is_told(tmp_path: Path) -> None:
    code, said, _ = run(tmp_path, "absent", user=0, apt='test "$1" = update')
    assert code == 0
    assert "sudo apt-get install absent" in said
