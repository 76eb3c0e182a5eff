"""`insync acl`: list, add, remove and check access control lists."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any

import typer

from insync.cli.exits import usage_error
from insync.cli.output import console, print_json, print_rows
from insync.cli.session import Session
from insync.client import acls
from insync.client.client import Client
from insync.escaping import printable
from insync.ops.access import ALLOW_EVERYONE, SUPER_USERS, Access, check_access
from insync.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

app = typer.Typer(help="Access control lists: who may do what.", no_args_is_help=True)

Resource = tuple[ResourceType, str]

Principal = Annotated[str, typer.Argument(metavar="USER", help="A user's name, User:NAME, or * for everyone.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The names are prefixes.")]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Only from this IP address; default: any.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedResources:
    """The options that name resources."""

    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="Topics of this name; * for all.")
    ] = None
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME", help="Consumer groups of this name; * for all.")
    ] = None
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster itself.")] = False
    transactional_id: Annotated[
        list[str] | None, typer.Option("--transactional-id", metavar="ID", help="Transactional ids; * for all.")
    ] = None
    delegation_token: Annotated[
        list[str] | None, typer.Option("--delegation-token", metavar="ID", help="Delegation tokens; * for all.")
    ] = None
    user_principal: Annotated[
        list[str] | None, typer.Option("--user-principal", metavar="USER", help="Users whose tokens are meant.")
    ] = None

    def resources(self) -> list[Resource]:
        named = (
            (ResourceType.TOPIC, self.topic),
            (ResourceType.GROUP, self.group),
            (ResourceType.CLUSTER, [CLUSTER_NAME] if self.cluster else None),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_id),
            (ResourceType.DELEGATION_TOKEN, self.delegation_token),
            (ResourceType.USER, [_principal(name) for name in self.user_principal or ()]),
        )
        resources = [(kind, name) for kind, names in named for name in names or ()]
        for kind, name in resources:
            if not name:
                raise usage_error(f"--{_option(kind)}: the name is empty")
        return resources


@app.command(name="list")
def list_acls(
    principal: Annotated[str, typer.Option("--principal", metavar="USER", help="ACLs of this user.")] = "",
    *,
    named: NamedResources,
    session: Session,
) -> None:
    """List ACLs: all, or those that concern a user or a resource, also by a prefix or for all names."""
    resources = named.resources()
    user = _principal(principal) if principal else None
    filters = [
        AclFilter(resource_type=kind, resource_name=name, pattern_type=PatternType.MATCH, principal=user)
        for kind, name in resources
    ] or [AclFilter(principal=user)]

    async def work(client: Client) -> list[Acl]:
        listed = [acl for wanted in filters for acl in await acls.list_acls(client, wanted)]
        return list(dict.fromkeys(listed))

    _print_acls(session.run(work), as_json=session.as_json)


@app.command()
def add(
    principal: Principal,
    operations: Annotated[
        str, typer.Argument(metavar="OPERATION[,...]", help="Such as read, write, describe, alter, all.")
    ],
    *,
    named: NamedResources,
    prefixed: Prefixed = False,
    deny: Annotated[bool, typer.Option("--deny", help="Deny instead of allowing; a denial always counts.")] = False,
    host: Host = WILDCARD,
    session: Session,
) -> None:
    """Allow a user to do something with a resource, or deny it."""
    resources = named.resources()
    if not resources:
        raise usage_error("give what the ACL is for: --topic, --group, --cluster, --transactional-id, ...")
    new = [
        Acl(
            resource_type=kind,
            resource_name=name,
            pattern_type=_pattern(kind, prefixed),
            principal=_principal(principal),
            host=_host(host),
            operation=operation,
            permission=Permission.DENY if deny else Permission.ALLOW,
        )
        for kind, name in resources
        for operation in _operations(operations, kind)
    ]
    session.run(lambda client: acls.create_acls(client, new))
    _print_acls(new, as_json=session.as_json)


@app.command()
def remove(
    principal: Annotated[str, typer.Argument(metavar="[USER]", help="ACLs of this user; default: of all.")] = "",
    operations: Annotated[
        str, typer.Argument(metavar="[OPERATION,...]", help="ACLs for these operations; default: for all.")
    ] = "",
    *,
    named: NamedResources,
    prefixed: Prefixed = False,
    deny: Annotated[bool, typer.Option("--deny", help="Only denials.")] = False,
    allow: Annotated[bool, typer.Option("--allow", help="Only permissions.")] = False,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Only those with this host.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    session: Session,
) -> None:
    """Remove the ACLs that match all that is given, with exactly these names."""
    resources = named.resources()
    if not principal and not resources:
        raise usage_error("give a user or a resource: this would remove every ACL")
    if deny and allow:
        raise usage_error("give --deny or --allow, or neither for both")
    permission = Permission.DENY if deny else Permission.ALLOW if allow else Permission.ANY
    user = _principal(principal) if principal else None
    wanted: list[tuple[ResourceType, str | None]] = [*resources] or [(ResourceType.ANY, None)]
    filters = [
        AclFilter(
            resource_type=kind,
            resource_name=name,
            pattern_type=PatternType.ANY if name is None else _pattern(kind, prefixed),
            principal=user,
            host=host or None,
            operation=operation,
            permission=permission,
        )
        for kind, name in wanted
        for operation in (_operations(operations, kind) if operations else [Operation.ANY])
    ]

    async def work(client: Client) -> list[Acl]:
        if dry_run:
            return [acl for acl_filter in filters for acl in await acls.list_acls(client, acl_filter)]
        return await acls.delete_acls(client, filters)

    removed = session.run(work)
    _print_acls(removed, as_json=session.as_json)
    if not session.as_json:
        typer.echo(f"{len(removed)} ACLs {'would be removed (--dry-run)' if dry_run else 'removed'}")


@app.command()
def check(
    principal: Principal,
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="Such as read, write, describe, alter.")],
    *,
    named: NamedResources,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The client's IP address.")] = "",
    session: Session,
) -> None:
    """May a user do this, and which ACL decides? Exit code 0 if so, 1 if not."""
    resources = named.resources()
    if len(resources) != 1:
        raise usage_error("give one resource: --topic, --group, --cluster, --transactional-id, ...")
    ((kind, name),) = resources
    (wanted,) = _operations(operation, kind)[:1]
    user = _principal(principal)

    async def work(client: Client) -> Access:
        return await check_access(client, user, host, wanted, kind, name)

    access = session.run(work)
    decision = access.decision
    asked = f"{user} {'may' if decision else 'may not'} {wanted.name} {kind.name} '{name}'"
    reason = f"because of: {decision.rule}" if decision.rule else decision.reason
    if session.as_json:
        print_json(
            {
                "allowed": decision.allowed,
                "reason": decision.reason or None,
                "acl": None if decision.rule is None else _row(decision.rule),
                "related": [_row(acl) for acl in access.related],
                "settings_known": access.settings_known,
            }
        )
    else:
        console().print(f"{asked}: {reason}", markup=False)
        _explain(access, user, host, wanted, kind, name)
    if not decision:
        raise typer.Exit(1)


def _explain(access: Access, user: str, host: str, operation: Operation, kind: ResourceType, name: str) -> None:
    if not access.decision and access.decision.rule is None:
        others = [acl for acl in access.related if acl.principal in (user, "User:*")]
        if others:
            typer.echo("ACLs of this user for this resource:")
            _print_acls(others, as_json=False)
        option = "--cluster" if kind is ResourceType.CLUSTER else f"--{_option(kind)} {shlex.quote(name)}"
        typer.echo(f"To allow it: insync acl add {shlex.quote(user)} {operation.name.lower()} {printable(option)}")
    if not host and any(acl.host != WILDCARD for acl in access.related):
        typer.echo("Some ACLs of this resource are for certain addresses: give the client's with --host.")
    if not access.settings_known:
        typer.echo(f"The brokers do not show {SUPER_USERS} and {ALLOW_EVERYONE}, which may allow more.")


def _option(kind: ResourceType) -> str:
    return "user-principal" if kind is ResourceType.USER else kind.name.lower().replace("_", "-")


def _principal(text: str) -> str:
    """A principal is type:name; a plain name is a user's."""
    if text in ("", "User:"):
        raise usage_error("the user's name is empty")
    return text if ":" in text else f"User:{text}"


def _operations(text: str, kind: ResourceType) -> list[Operation]:
    allowed = (Operation.ALL, *(SUPPORTED_OPERATIONS.get(kind) or [code for code in Operation if code > Operation.ALL]))
    chosen = []
    for word in text.split(","):
        name = word.strip().upper().replace("-", "_")
        operation = Operation.__members__.get(name, Operation.UNKNOWN)
        if operation not in allowed:
            names = ", ".join(code.name.lower().replace("_", "-") for code in allowed)
            raise usage_error(f"'{word}' is not an operation on {_option(kind)}: write one of {names}")
        chosen.append(operation)
    return chosen


def _pattern(kind: ResourceType, prefixed: bool) -> PatternType:
    if prefixed and kind is ResourceType.CLUSTER:
        raise usage_error("--prefixed does not go with --cluster")
    return PatternType.PREFIXED if prefixed else PatternType.LITERAL


def _host(text: str) -> str:
    if text != WILDCARD:
        try:
            ip_address(text)
        except ValueError:
            raise usage_error(f"--host {text}: is not an IP address; host names are not resolved") from None
    return text


def _row(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": acl.operation.name.lower(),
        "resource": acl.resource_type.name.lower(),
        "pattern": acl.pattern_type.name.lower(),
        "name": acl.resource_name,
        "host": acl.host,
    }


def _print_acls(listed: list[Acl], *, as_json: bool) -> None:
    columns = ("principal", "permission", "operation", "resource", "pattern", "name", "host")
    print_rows(columns, [_row(acl) for acl in listed], as_json=as_json, empty="no ACLs")
