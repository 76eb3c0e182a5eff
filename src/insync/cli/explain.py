"""`insync explain`: why one partition is as it is, from live state."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from insync.cli.common import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    console,
    print_json,
    print_table,
    run,
)
from insync.client.model import NO_NODE
from insync.ops import explain as reasons
from insync.ops import facts as live
from insync.ops.explain import Explanation
from insync.ops.facts import PartitionFacts


def explain(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0)],
    interval: Annotated[float, typer.Option("--interval", min=0.0, metavar="SECONDS", help="Between two looks.")] = 0.5,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Why is a replica not in the ISR, why do writes fail, what would an unclean election lose?"""
    facts = run(bootstrap, timeout, lambda client: live.gather_facts(client, topic, partition, interval))
    told = reasons.explain(facts)
    if as_json:
        print_json(_as_dict(facts, told))
    else:
        _print(facts, told)


def _as_dict(facts: PartitionFacts, told: Explanation) -> dict[str, Any]:
    p = facts.partition
    ends = {r.broker: r for r in facts.replicas}
    return {
        "topic": facts.topic,
        "partition": p.index,
        "state": told.state,
        "leader": p.leader,
        "leader_epoch": p.leader_epoch,
        "isr": p.isr,
        "elr": p.elr,
        "last_known_elr": p.last_known_elr,
        "min_isr": facts.min_isr,
        "hwm": facts.hwm,
        "leso": facts.leso,
        "leader_end": facts.leader_end,
        "replicas": [
            {
                **asdict(story),
                "broker_status": ends[story.broker].status,
                "log_end": ends[story.broker].end,
                "last_epoch": ends[story.broker].last_epoch,
                "size": ends[story.broker].size,
            }
            for story in told.replicas
        ],
        "writes_fail_because": told.writes,
        "unclean_election": told.unclean,
        "unclean_losses": [asdict(loss) for loss in told.losses],
    }


def _print(facts: PartitionFacts, told: Explanation) -> None:
    p, out = facts.partition, console()
    leader = "no leader" if p.leader == NO_NODE else f"leader {p.leader}"
    marks = f"HWM {_known(facts.hwm)}, log end {_known(facts.leader_end)}"
    out.print(
        f"{facts.topic}-{p.index}: {told.state}. {leader}, epoch {p.leader_epoch}, {marks}, "
        f"{len(p.isr)} of {len(p.replicas)} in sync, {facts.min_isr} needed",
        markup=False,
    )
    ends = {r.broker: r.end for r in facts.replicas}
    print_table(
        ("replica", "standing", "log end", "why"),
        [[story.broker, story.standing, _known(ends[story.broker]), story.why] for story in told.replicas],
    )
    for line in told.writes or ("writes work",):
        out.print(f"Writes: {line}", markup=False)
    out.print(f"Unclean election: {told.unclean}", markup=False)
    for loss in told.losses:
        out.print(f"  electing broker {loss.broker} would lose {loss.text}", markup=False)


def _known(offset: int | None) -> str:
    return "?" if offset is None else str(offset)
