"""`insync explain`: the state of one partition and its reasons."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from insync.cli.completion import complete_topics
from insync.cli.options import Interval
from insync.cli.output import console, print_json, print_table
from insync.cli.session import Session
from insync.client.model import NO_NODE
from insync.ops import explain as reasons
from insync.ops import facts as live
from insync.ops.explain import Explanation
from insync.ops.facts import PartitionFacts


def explain(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0)],
    interval: Interval = 0.5,
    *,
    session: Session,
) -> None:
    """Why is a replica not in the ISR, why do writes fail, what would an unclean election lose?"""
    facts = session.run(lambda client: live.gather_facts(client, topic, partition, interval))
    explanation = reasons.explain(facts)
    if session.as_json:
        print_json(_as_dict(facts, explanation))
    else:
        _print(facts, explanation)


def _as_dict(facts: PartitionFacts, explanation: Explanation) -> dict[str, Any]:
    p = facts.partition
    ends = {r.broker: r for r in facts.replicas}
    return {
        "topic": facts.topic,
        "partition": p.index,
        "state": explanation.state,
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
                **asdict(replica),
                "broker_status": ends[replica.broker].status,
                "log_end": ends[replica.broker].end,
                "last_epoch": ends[replica.broker].last_epoch,
                "size": ends[replica.broker].size,
            }
            for replica in explanation.replicas
        ],
        "writes_fail_because": explanation.writes,
        "unclean_election": explanation.unclean,
        "unclean_losses": [asdict(loss) for loss in explanation.losses],
    }


def _print(facts: PartitionFacts, explanation: Explanation) -> None:
    p, out = facts.partition, console()
    leader = "no leader" if p.leader == NO_NODE else f"leader {p.leader}"
    marks = f"HWM {_known(facts.hwm)}, log end {_known(facts.leader_end)}"
    out.print(
        f"{facts.topic}-{p.index}: {explanation.state}. {leader}, epoch {p.leader_epoch}, {marks}, "
        f"{len(p.isr)} of {len(p.replicas)} in sync, {facts.min_isr} needed",
        markup=False,
    )
    ends = {r.broker: r.end for r in facts.replicas}
    print_table(
        ("replica", "standing", "log end", "why"),
        [
            [replica.broker, replica.standing, _known(ends[replica.broker]), replica.why]
            for replica in explanation.replicas
        ],
    )
    for line in explanation.writes or ("writes work",):
        out.print(f"Writes: {line}", markup=False)
    out.print(f"Unclean election: {explanation.unclean}", markup=False)
    for loss in explanation.losses:
        out.print(f"  electing broker {loss.broker} would lose {loss.text}", markup=False)


def _known(offset: int | None) -> str:
    return "?" if offset is None else str(offset)
