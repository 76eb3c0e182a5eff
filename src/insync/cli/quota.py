"""`insync quota`: limits of users, client ids and addresses."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

import typer

from insync.cli.exits import failure, usage_error
from insync.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, AsJson, Bootstrap, Timeout
from insync.cli.output import print_json, print_table, report
from insync.cli.parsing import pairs
from insync.cli.session import run
from insync.client import quotas
from insync.client.client import Client
from insync.escaping import printable
from insync.security.quotas import DEFAULT, IP_QUOTAS, USER_QUOTAS, QuotaEntity

app = typer.Typer(help="Quotas: limits of users, client ids and addresses.", no_args_is_help=True)

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="This user.")]
DefaultUser = Annotated[bool, typer.Option("--default-user", help="Each user without a quota of its own.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="This client id.")]
DefaultClientId = Annotated[
    bool, typer.Option("--default-client-id", help="Each client id without a quota of its own.")
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="Clients from this address.")]
DefaultIp = Annotated[bool, typer.Option("--default-ip", help="Each address without a quota of its own.")]

_NAMES = ", ".join((*USER_QUOTAS, *IP_QUOTAS))


@app.command(name="list")
def list_quotas(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List all quotas."""
    listed = run(bootstrap, timeout, quotas.list_quotas)
    rows = [
        {**_describe(entity), "quota": name, "limit": limit}
        for entity, limits in listed.items()
        for name, limit in sorted(limits.items())
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(
            ("user", "client-id", "ip", "quota", "limit"),
            [[row["user"], row["client_id"], row["ip"], row["quota"], f"{row['limit']:.12g}"] for row in rows],
        )


@app.command(name="set")
def set_quota(
    limits: Annotated[list[str], typer.Argument(metavar="QUOTA=LIMIT...", help=f"Quotas: {_NAMES}.")],
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Limit a user, a client id, both together, or an address."""
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    changes = {name: _number(name, value) for name, value in pairs(limits, "quota").items()}
    _check_names(entity, list(changes))
    _alter(entity, changes, bootstrap, timeout)
    report(
        {**_describe(entity), "set": changes},
        f"quotas of {printable(str(entity))} set: {', '.join(changes)}",
        as_json=as_json,
    )


@app.command()
def remove(
    names: Annotated[list[str] | None, typer.Argument(metavar="[QUOTA...]", help="Default: all of them.")] = None,
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Remove quotas of a user, a client id, both together, or an address."""
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    _check_names(entity, names or [])
    existing = run(bootstrap, timeout, quotas.list_quotas).get(entity, {})
    missing = [name for name in names or () if name not in existing]
    if missing or not existing:
        what = " and ".join(missing) or "any quota"
        raise failure(f"{entity} does not have {what}: `insync quota list` lists the quotas")
    removed = names or sorted(existing)
    _alter(entity, dict.fromkeys(removed), bootstrap, timeout)
    report(
        {**_describe(entity), "removed": removed},
        f"quotas of {printable(str(entity))} removed: {', '.join(removed)}",
        as_json=as_json,
    )


def _alter(entity: QuotaEntity, changes: dict[str, Any], bootstrap: str, timeout: float) -> None:
    async def work(client: Client) -> None:
        await quotas.alter_quotas(client, entity, changes)

    run(bootstrap, timeout, work)


def _entity(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> QuotaEntity:
    names: dict[str, str] = {}
    for option, name, is_default in (
        ("user", user, default_user),
        ("client-id", client_id, default_client_id),
        ("ip", ip, default_ip),
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
