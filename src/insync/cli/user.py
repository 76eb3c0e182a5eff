"""`insync user`: users that log in by SCRAM, and their passwords.

A password is asked for, or read from a file or standard input. On a command line every user of the machine can read it,
so giving it there is possible, and warned of.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from insync.cli.exits import failure, usage_error
from insync.cli.output import print_rows, report
from insync.cli.session import Session
from insync.client import users
from insync.client.client import Client
from insync.escaping import printable
from insync.ops.access import list_super_users
from insync.security.scram import HASHES, MAX_ITERATIONS, MIN_ITERATIONS

app = typer.Typer(help="Users that log in by SCRAM.", no_args_is_help=True)

DEFAULT_MECHANISM = "SCRAM-SHA-256"
DEFAULT_ITERATIONS = 4_096
"""As kafka-configs and `insync format` have it: a user with another number differs from names that do not exist."""

Name = Annotated[str, typer.Argument(metavar="NAME")]
Mechanism = Annotated[
    list[str] | None,
    typer.Option("--mechanism", "-m", metavar="NAME", help=f"One of {', '.join(HASHES)}; repeat for both."),
]
MechanismOfUser = Annotated[
    list[str] | None, typer.Option("--mechanism", "-m", metavar="NAME", help="Default: all that the user has.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPassword:
    """The options that say what the password is and how it is stored."""

    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="Read the password from the first line; - for stdin."),
    ] = None
    password: Annotated[
        str | None, typer.Option("--password", metavar="SECRET", help="Visible to other users; for tests only.")
    ] = field(default=None, repr=False)
    iterations: Annotated[
        int, typer.Option("--iterations", min=MIN_ITERATIONS, max=MAX_ITERATIONS, help="More make guessing slower.")
    ] = DEFAULT_ITERATIONS

    def set(self, name: str, mechanisms: list[str], session: Session) -> None:
        password = self._read()

        async def work(client: Client) -> None:
            for mechanism in mechanisms:  # Kafka refuses to change a user twice in one request
                await users.set_password(client, name, password, mechanism, self.iterations)

        session.run(work)

    def _read(self) -> str:
        if self.password_file is not None and self.password is not None:
            raise usage_error("give --password-file or --password, not both")
        if self.password is not None:
            typer.echo("insync: warning: other users of this machine can read a password on a command line", err=True)
            password = self.password
        elif self.password_file is not None:
            password = _read_first_line(self.password_file)
        elif sys.stdin.isatty():
            password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        else:
            password = sys.stdin.readline().rstrip("\r\n")
        if not password:
            raise usage_error("the password is empty")
        return password


@app.command()
def add(
    name: Name,
    mechanism: Mechanism = None,
    *,
    new_password: NewPassword,
    super_user: Annotated[
        bool, typer.Option("--super-user", help="Create the user also if its name is one of the brokers' super.users.")
    ] = False,
    session: Session,
) -> None:
    """Create a user; its password is asked for."""
    mechanisms = _check_mechanisms(mechanism or [DEFAULT_MECHANISM])

    async def find_existing(client: Client) -> tuple[list[str], bool]:
        existing = (await users.list_users(client, [name])).get(name, {})
        is_super_user = f"User:{name}" in await list_super_users(client)
        return [chosen for chosen in mechanisms if chosen in existing], is_super_user

    existing, is_super_user = session.run(find_existing)
    if existing:
        raise failure(
            f"user '{name}' exists with {' and '.join(existing)}: change the password with `insync user passwd`"
        )
    if is_super_user and not super_user:
        raise failure(
            f"'User:{name}' is one of the brokers' super users: a client that logs in as '{name}' may do everything, "
            "as a node may. Choose another name, or add --super-user if that is intended"
        )
    new_password.set(name, mechanisms, session)
    report(
        {"user": name, "mechanisms": mechanisms},
        f"user '{printable(name)}' created for {' and '.join(mechanisms)}",
        as_json=session.as_json,
    )


@app.command()
def passwd(
    name: Name,
    mechanism: MechanismOfUser = None,
    *,
    new_password: NewPassword,
    session: Session,
) -> None:
    """Change a user's password. Connections that are open stay open."""
    hint = ": add it with `insync user add --mechanism`"
    mechanisms = _choose_existing(name, mechanism, session, hint=hint)
    new_password.set(name, mechanisms, session)
    report(
        {"user": name, "mechanisms": mechanisms},
        f"password of '{printable(name)}' changed for {' and '.join(mechanisms)}",
        as_json=session.as_json,
    )


@app.command(name="list")
def list_users(*, session: Session) -> None:
    """List users with their mechanisms and iterations."""
    listed = session.run(users.list_users)
    rows = [
        {"user": name, "mechanism": mechanism, "iterations": iterations}
        for name, credentials in listed.items()
        for mechanism, iterations in credentials.items()
    ]
    print_rows(
        ("user", "mechanism", "iterations"), rows, as_json=session.as_json, empty="no users that log in by SCRAM"
    )


@app.command()
def remove(name: Name, mechanism: MechanismOfUser = None, *, session: Session) -> None:
    """Remove a user. ACLs and quotas of the name stay, and connections that are open stay open."""
    mechanisms = _choose_existing(name, mechanism, session)

    async def work(client: Client) -> None:
        for chosen in mechanisms:  # Kafka refuses to change a user twice in one request
            await users.remove_credential(client, name, chosen)

    session.run(work)
    report(
        {"user": name, "removed": mechanisms},
        f"user '{printable(name)}' removed for {' and '.join(mechanisms)}",
        as_json=session.as_json,
    )


def _choose_existing(name: str, wanted: list[str] | None, session: Session, *, hint: str = "") -> list[str]:
    """The wanted mechanisms, or all of the user's; one that the user does not have is a failure."""
    existing = session.run(lambda client: users.list_users(client, [name])).get(name)
    if not existing:
        raise failure(f"there is no user '{name}': `insync user list` lists the users")
    mechanisms = _check_mechanisms(wanted or list(existing))
    missing = [chosen for chosen in mechanisms if chosen not in existing]
    if missing:
        raise failure(f"user '{name}' has no {' or '.join(missing)}{hint}")
    return mechanisms


def _check_mechanisms(mechanisms: list[str]) -> list[str]:
    chosen = list(dict.fromkeys(mechanism.upper() for mechanism in mechanisms))
    for mechanism in chosen:
        if mechanism not in HASHES:
            raise usage_error(f"'{mechanism}' is not a mechanism: write one of {', '.join(HASHES)}")
    return chosen


def _read_first_line(file: Path) -> str:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except OSError as error:
        raise usage_error(f"--password-file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise usage_error(f"--password-file {file}: is not a text file") from None
    return text.splitlines()[0] if text else ""
