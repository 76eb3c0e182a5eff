"""`insync quota`: limits of users, client ids and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Annotated

import typer

from insync.cli.exits import failure, usage_error
from insync.cli.output import print_json, print_table, report
from insync.cli.parsing import pairs
from insync.cli.session import Session
from insync.client import quotas
from insync.escaping import printable
from insync.security.quotas import DEFAULT, IP_QUOTAS, USER_QUOTAS, QuotaEntity

app = typer.Typer(help="Quotas: limits of users, client ids and addresses.", no_args_is_help=True)

_NAMES = ", ".join((*USER_QUOTAS, *IP_QUOTAS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The options that say whose quotas are meant."""

    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="This user.")] = None
    default_user: Annotated[bool, typer.Option("--default-user", help="Each user without a quota of its own.")] = False
    client_id: Annotated[str | None, typer.Option("--client-id", metavar="ID", help="This client id.")] = None
    default_client_id: Annotated[
        bool, typer.Option("--default-client-id", help="Each client id without a quota of its own.")
    ] = False
    ip: Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="Clients from this address.")] = None
    default_ip: Annotated[bool, typer.Option("--default-ip", help="Each address without a quota of its own.")] = False

    def entity(self) -> QuotaEntity:
        names: dict[str, str] = {}
        for option, name, is_default in (
            ("user", self.user, self.default_user),
            ("client-id", self.client_id, self.default_client_id),
            ("ip", self.ip, self.default_ip),
        ):
            if name is not None and is_default:
                raise usage_error(f"give --{option} or --default-{option}, not both")
            if name == "":
                raise usage_error(f"--{option}: the name is empty")
            if name is not None or is_default:
                names[option.replace("-", "_")] = DEFAULT if name is None else name
        if not names:
            raise usage_error("give whose quotas are meant: --user, --client-id, --ip, or --default-...")
        if "ip" in names and len(names) > 1:
            raise usage_error("--ip does not go with --user or --client-id")
        return QuotaEntity(**names)


@app.command(name="list")
def list_quotas(*, session: Session) -> None:
    """List all quotas."""
    listed = session.run(quotas.list_quotas)
    rows = [
        {**_describe(entity), "quota": name, "limit": limit}
        for entity, limits in listed.items()
        for name, limit in sorted(limits.items())
    ]
    if session.as_json:
        print_json(rows)
    else:
        print_table(
            ("user", "client-id", "ip", "quota", "limit"),
            [[row["user"], row["client_id"], row["ip"], row["quota"], f"{row['limit']:.12g}"] for row in rows],
        )


@app.command(name="set")
def set_quota(
    limits: Annotated[list[str], typer.Argument(metavar="QUOTA=LIMIT...", help=f"Quotas: {_NAMES}.")],
    *,
    owner: Owner,
    session: Session,
) -> None:
    """Limit a user, a client id, both together, or an address."""
    entity = owner.entity()
    changes = {name: _number(name, value) for name, value in pairs(limits, "quota").items()}
    _check_names(entity, list(changes))
    session.run(lambda client: quotas.alter_quotas(client, entity, changes))
    report(
        {**_describe(entity), "set": changes},
        f"quotas of {printable(str(entity))} set: {', '.join(changes)}",
        as_json=session.as_json,
    )


@app.command()
def remove(
    names: Annotated[list[str] | None, typer.Argument(metavar="[QUOTA...]", help="Default: all of them.")] = None,
    *,
    owner: Owner,
    session: Session,
) -> None:
    """Remove quotas of a user, a client id, both together, or an address."""
    entity = owner.entity()
    _check_names(entity, names or [])
    existing = session.run(quotas.list_quotas).get(entity, {})
    missing = [name for name in names or () if name not in existing]
    if missing or not existing:
        what = " and ".join(missing) or "any quota"
        raise failure(f"{entity} does not have {what}: `insync quota list` lists the quotas")
    removed = names or sorted(existing)
    session.run(lambda client: quotas.alter_quotas(client, entity, dict.fromkeys(removed)))
    report(
        {**_describe(entity), "removed": removed},
        f"quotas of {printable(str(entity))} removed: {', '.join(removed)}",
        as_json=session.as_json,
    )


def _check_names(entity: QuotaEntity, names: list[str]) -> None:
    known = USER_QUOTAS if entity.ip is None else IP_QUOTAS
    for name in names:
        if name not in known:
            raise usage_error(f"'{name}' is not a quota of {entity}: write one of {', '.join(known)}")


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number) or number <= 0:
        raise usage_error(f"{name}={text}: the limit has to be a number above 0")
    return number


def _describe(entity: QuotaEntity) -> dict[str, str | None]:
    names = {field: getattr(entity, field) for field in QuotaEntity._fields}
    return {field: "<default>" if name == DEFAULT else name for field, name in names.items()}
