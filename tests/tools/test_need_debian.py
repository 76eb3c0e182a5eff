"""Missing commands are installed where that is possible; elsewhere the script prints how to install them."""

from __future__ import annotations

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "tools" / "need_debian.sh"


def run(tmp_path: Path, *commands: str, user: int, apt: str | None) -> tuple[int, str, str]:
    """Run the script with fake programs as PATH; `apt` is the shell code of apt-get, None if there is none.

    Returns (exit code, stderr, arguments of apt-get).
    """
    apt_calls = tmp_path / "apt-calls"
    apt_calls.touch()
    programs = {"id": f"echo {user}", "present": ":"} | (
        {} if apt is None else {"apt-get": f'echo "$@" >>{apt_calls}; {apt}'}
    )
    for name, code in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{code}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "env").symlink_to("/usr/bin/env")
    completed = subprocess.run(
        ["/bin/sh", str(SCRIPT), *commands], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    return completed.returncode, completed.stderr, apt_calls.read_text()


def test_nothing_is_installed_if_all_commands_exist(tmp_path: Path) -> None:
    assert run(tmp_path, "present", user=0, apt="exit 1") == (0, "", "")


def test_root_installs_missing_commands(tmp_path: Path) -> None:
    code, stderr, apt_calls = run(tmp_path, "present", "absent", user=0, apt=":")
    assert (code, stderr) == (0, "")
    assert apt_calls.splitlines() == ["update -qq", "install -y -qq --no-install-recommends absent"]


def test_a_command_may_be_in_a_package_of_another_name(tmp_path: Path) -> None:
    apt_calls = run(tmp_path, "present=thing", "absent=default-absent", user=0, apt=":")[2]
    assert apt_calls.splitlines()[-1] == "install -y -qq --no-install-recommends default-absent"


def test_other_users_get_the_command_to_install(tmp_path: Path) -> None:
    code, stderr, apt_calls = run(tmp_path, "absent", user=1000, apt=":")
    assert (code, apt_calls) == (0, "")
    assert "sudo apt-get install absent" in stderr


def test_a_machine_without_apt_lists_what_is_missing(tmp_path: Path) -> None:
    assert "Missing: absent." in run(tmp_path, "absent", user=0, apt=None)[1]


def test_a_failed_installation_prints_the_command(tmp_path: Path) -> None:
    code, stderr, _ = run(tmp_path, "absent", user=0, apt='test "$1" = update')
    assert code == 0
    assert "sudo apt-get install absent" in stderr
