"""`insync reassign`: move partitions to other brokers. Plans are JSON in the format of Kafka's own tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from insync.cli.completion import complete_brokers, complete_topics
from insync.cli.exits import failure, file_problem, usage_error
from insync.cli.options import Interval
from insync.cli.output import console, duration, print_json, print_table, report, size
from insync.cli.parsing import MAX_INT, numbers
from insync.cli.session import Session
from insync.client import admin, offsets, topics
from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, error_name
from insync.client.model import Topic, TopicPartition
from insync.ops.reassignment import plan, progress, throttle
from insync.ops.reassignment.progress import Progress

T = TypeVar("T")

app = typer.Typer(help="Move partitions to other brokers.", no_args_is_help=True)

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan as `insync reassign plan` prints it.")]


@app.command(name="plan")
def make_plan(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Topics; default: all but internal ones.", autocompletion=complete_topics),
    ] = None,
    brokers: Annotated[
        str,
        typer.Option(
            "--brokers", metavar="1,2,3", help="Target brokers; default: all.", autocompletion=complete_brokers
        ),
    ] = "",
    replication: Annotated[int, typer.Option("--replication", "-r", min=0, help="Replicas; 0: unchanged.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the plan to this file.")] = None,
    *,
    session: Session,
) -> None:
    """Plan an even distribution over the target brokers with the fewest copies. Changes nothing."""
    wanted = numbers(brokers, "brokers") if brokers else None

    async def work(client: Client) -> tuple[list[plan.Move], dict[TopicPartition, int]]:
        described = await topics.describe(client, names or None)
        chosen = [topic for topic in described if names or not topic.internal]
        targets = wanted or sorted(client.brokers)
        if unknown := [broker for broker in targets if broker not in client.brokers]:
            raise ClientError(
                f"broker {unknown[0]} is not in the cluster, which has the brokers {sorted(client.brokers)}"
            )
        current = {(topic.name, p.index): p.replicas for topic in chosen for p in topic.partitions}
        try:
            moves = plan.plan_moves(current, targets, replication or None)
        except ValueError as error:
            raise ClientError(f"this plan is not possible: {error}") from None
        return moves, await _leader_sizes(client, chosen)

    moves, sizes = session.run(work)
    document = plan.to_document(moves)
    if output is not None:
        try:
            output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise usage_error(f"--output {file_problem(error, output)}") from None
    if session.as_json:
        print_json(document)
        return
    rows = [
        [f"{m.topic}-{m.partition}", m.before, m.after, m.copies, size(sizes.get((m.topic, m.partition)))]
        for m in moves
    ]
    print_table(("partition", "replicas now", "replicas after", "copies to", "size"), rows)
    copied = sum(sizes.get((m.topic, m.partition), 0) * len(m.copies) for m in moves)
    typer.echo(f"{len(moves)} partitions change, {sum(len(m.copies) for m in moves)} copies, {size(copied)} to copy")
    if output is not None:
        typer.echo(f"start it with:  insync reassign start {output}")
    elif moves:
        typer.echo("write it to a file with --output FILE, then `insync reassign start FILE`")


async def _leader_sizes(client: Client, chosen: Sequence[Topic]) -> dict[TopicPartition, int]:
    leaders = {(topic.name, p.index): p.leader for topic in chosen for p in topic.partitions}
    sizes = await offsets.describe_replica_logs(client, sorted(set(leaders.values()) & set(client.brokers)), chosen)
    logs = {key: sizes.get(leader, {}).get(key) for key, leader in leaders.items()}
    return {key: replica.size for key, replica in logs.items() if replica is not None}


def read_plan(file: Path) -> dict[TopicPartition, list[int]]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        targets = {
            (_typed(entry["topic"], str), _typed(entry["partition"], int)): [
                _typed(broker, int) for broker in _typed(entry["replicas"], list)
            ]
            for entry in _typed(document["partitions"], list)
        }
    except OSError as error:
        raise usage_error(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise usage_error(f"{file} is not a plan in the format of `insync reassign plan --json`: {error!r}") from None
    if any(not 0 <= number <= MAX_INT for key, brokers in targets.items() for number in (key[1], *brokers)):
        raise usage_error(f"{file} is not a plan: partitions and brokers are numbers from 0 to {MAX_INT}")
    if not targets:
        raise usage_error(f"{file} moves nothing: the plan is empty")
    return targets


def _typed(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


@app.command()
def start(
    file: PlanFile,
    limit: Annotated[
        int, typer.Option("--throttle", min=0, metavar="BYTES/S", help="Limit of the copies; 0: none.")
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done, then remove the throttle.")] = False,
    *,
    session: Session,
) -> None:
    """Start to move partitions as planned."""
    targets = read_plan(file)

    async def work(client: Client) -> admin.Results:
        if limit:
            await throttle.set_throttle(client, targets, limit)
        results = await admin.reassign(client, targets)
        while wait and await admin.list_reassignments(client):
            await asyncio.sleep(0.5)
        if wait and limit:
            await throttle.remove_throttles(client)
        return results

    results = session.run(work)
    _report(results, "moved" if wait else "started", session.as_json)
    if limit and not wait and not session.as_json:
        typer.echo("remove the throttle when it is done:  insync reassign unthrottle")


@app.command()
def status(interval: Interval = 1.0, *, session: Session) -> None:
    """Show the progress: bytes left, rate, time left, and the replica that it waits for."""
    moving = session.run(lambda client: progress.measure_progress(client, interval))
    if session.as_json:
        print_json([_progress_dict(p) for p in moving])
        return
    if not moving:
        typer.echo("no reassignment is in progress")
        return
    columns = ("partition", "adding", "removing", "left", "rate", "time left", "waits for")
    print_table(columns, [_progress_row(p) for p in moving])


def _progress_row(p: Progress) -> list[Any]:
    r = p.reassignment
    rate = "-" if p.bytes_per_s is None else f"{size(p.bytes_per_s)}/s"
    return [
        f"{r.topic}-{r.partition}", r.adding, r.removing, size(p.bytes_left), rate, duration(p.seconds_left), p.reason,
    ]  # fmt: skip


def _progress_dict(p: Progress) -> dict[str, Any]:
    values = asdict(p)
    return {**values.pop("reassignment"), **values}


@app.command()
def cancel(
    file: Annotated[
        Path | None, typer.Argument(metavar="PLAN", help="A plan; default: everything in progress.")
    ] = None,
    *,
    session: Session,
) -> None:
    """Cancel reassignments: partitions get their previous replicas back."""
    wanted = None if file is None else list(read_plan(file))

    async def work(client: Client) -> admin.Results:
        running = [(r.topic, r.partition) for r in await admin.list_reassignments(client)]
        keys = running if wanted is None else wanted
        return await admin.reassign(client, dict.fromkeys(keys)) if keys else {}

    _report(session.run(work), "cancelled", session.as_json)


@app.command()
def unthrottle(*, session: Session) -> None:
    """Remove all throttles that `start --throttle` has set."""
    count = session.run(throttle.remove_throttles)
    report({"lifted": count}, f"throttles removed from {count} brokers and topics", as_json=session.as_json)


def _report(results: admin.Results, done: str, as_json: bool) -> None:
    refused = {key: result for key, result in results.items() if result[0] is not ErrorCode.none}
    if as_json:
        print_json(
            [
                {
                    "topic": key[0],
                    "partition": key[1],
                    "error": None if key not in refused else error_name(code),
                    **_message(m),
                }
                for key, (code, m) in sorted(results.items())
            ]
        )
    else:
        typer.echo(f"{len(results) - len(refused)} partitions {done}")
        for (topic, index), (code, message) in sorted(refused.items()):
            console().print(f"{topic}-{index}: {error_name(code)} {message}", style="red", markup=False)
    if refused:
        raise failure(f"{len(refused)} of {len(results)} partitions were refused")


def _message(message: str) -> dict[str, str]:
    return {"message": message} if message else {}
