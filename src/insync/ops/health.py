"""Is the cluster well? One list of findings, worst first, and an answer for scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from insync import findings
from insync.client import admin, offsets, topics
from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, UnsupportedError, error_name
from insync.client.model import NO_NODE, ClusterInfo, LogDir, Partition, QuorumState, Reassignment, Topic
from insync.ops.facts import MIN_ISR, controller_findings, effective_min_isr, node_findings

SEVERITIES = ("critical", "warning", "info")
FULL = 0.95
VOTERS = "controller.quorum.voters"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: str
    """critical: something fails now. warning: less safe than it should be. info: worth knowing, nothing is wrong."""
    what: str
    where: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    info: ClusterInfo
    topics: Sequence[Topic]
    min_isr: Mapping[str, str]
    reassignments: Sequence[Reassignment]
    quorum: QuorumState | None
    log_dirs: Mapping[int, Sequence[LogDir] | None]
    """None for a broker that is in the cluster and does not answer."""
    node_findings: Mapping[int, Sequence[findings.Finding]] = field(default_factory=dict)
    """What brokers report of themselves; only insync's do. NOBODY is a broker that answers while none is registered."""
    controller_findings: Mapping[int, Sequence[findings.Finding] | None] = field(default_factory=dict)
    """What controllers that are no brokers report of themselves; None for one that no broker reaches."""
    controller_answers: bool = True


async def snapshot_cluster(client: Client) -> ClusterSnapshot:
    info = await client.describe_cluster()
    found = await topics.describe(client)
    settings = await topics.describe_topic_configs(client, [topic.name for topic in found], [MIN_ISR])
    live = [broker.id for broker in info.brokers if not broker.fenced]
    dirs = await asyncio.gather(*(_log_dirs(client, broker) for broker in live))
    asked = live or [NO_NODE]
    reported = await asyncio.gather(*(node_findings(client, broker) for broker in asked))
    controllers = await _controllers(client, info)
    of_controllers = await asyncio.gather(*(controller_findings(client, node) for node in controllers))
    reassignments, quorum = await asyncio.gather(_reassignments(client), _quorum(client))
    return ClusterSnapshot(
        info=info,
        topics=found,
        min_isr={name: values.get(MIN_ISR, "1") for name, values in settings.items()},
        reassignments=reassignments or (),
        quorum=quorum,
        log_dirs=dict(zip(live, dirs, strict=True)),
        node_findings=dict(zip(asked, reported, strict=True)),
        controller_findings=dict(zip(controllers, of_controllers, strict=True)),
        controller_answers=reassignments is not None,
    )


def find_problems(picture: ClusterSnapshot) -> list[Finding]:
    """Everything that is not as it should be, worst first."""
    found = [*_brokers(picture), *_quorum_findings(picture), *_disks(picture), *_reported(picture)]
    for topic in picture.topics:
        for partition in topic.partitions:
            found += _partition(picture, topic, partition)
    found += [
        Finding("info", "reassigning", f"{r.topic}-{r.partition}", f"moving to {list(r.target)}")
        for r in picture.reassignments
    ]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def is_healthy(findings: Sequence[Finding]) -> bool:
    return all(finding.severity == "info" for finding in findings)


def _brokers(picture: ClusterSnapshot) -> Iterator[Finding]:
    known = {broker.id for broker in picture.info.brokers}
    for broker in picture.info.brokers:
        if broker.fenced:
            yield Finding("warning", "fenced", f"broker {broker.id}", "registered, but stopped or not heard from")
        elif picture.log_dirs.get(broker.id, ()) is None:
            yield Finding("warning", "unreachable", f"broker {broker.id}", f"no answer at {broker.address}")
    used = {b for topic in picture.topics for p in topic.partitions for b in p.replicas}
    for missing in sorted(used - known):
        yield Finding("warning", "missing", f"broker {missing}", "holds replicas, and is stopped or fenced")


def _quorum_findings(picture: ClusterSnapshot) -> Iterator[Finding]:
    if picture.info.controller == NO_NODE or not picture.controller_answers:
        yield Finding("critical", "no controller", "cluster", "nothing can be elected, created or changed")
    quorum = picture.quorum
    if quorum is None:
        return
    newest = max(voter.last_caught_up_ms for voter in quorum.voters) if quorum.voters else -1
    for voter in quorum.voters:
        silent = newest - voter.last_caught_up_ms
        if voter.id != quorum.leader and (voter.log_end_offset < 0 or silent > 10_000):
            yield Finding("warning", "voter behind", f"controller {voter.id}", "does not follow the quorum's leader")


def _disks(picture: ClusterSnapshot) -> Iterator[Finding]:
    for broker, dirs in picture.log_dirs.items():
        for entry in dirs or ():
            where = f"broker {broker} {entry.path}"
            if entry.error is not ErrorCode.none:
                yield Finding("critical", "log directory failed", where, error_name(entry.error))
            elif entry.total_bytes > 0 and entry.usable_bytes < entry.total_bytes * (1 - FULL):
                used = 100 - 100 * entry.usable_bytes // entry.total_bytes
                yield Finding("warning", "disk nearly full", where, f"{used} % used")


def _reported(picture: ClusterSnapshot) -> Iterator[Finding]:
    for broker, reported in picture.node_findings.items():
        for finding in reported:
            severity = finding.severity if finding.severity in SEVERITIES else "warning"
            where = finding.subject if broker == NO_NODE else f"broker {broker} {finding.subject}"
            yield Finding(severity, finding.kind.replace("_", " "), where, finding.text)

    for controller, own in picture.controller_findings.items():
        for finding in own or ():
            severity = finding.severity if finding.severity in SEVERITIES else "warning"
            where = f"controller {controller} {finding.subject}"
            yield Finding(severity, finding.kind.replace("_", " "), where, finding.text)


def _partition(picture: ClusterSnapshot, topic: Topic, partition: Partition) -> Iterator[Finding]:
    where = f"{topic.name}-{partition.index}"
    moving = next((r for r in picture.reassignments if (r.topic, r.partition) == (topic.name, partition.index)), None)
    owed = [b for b in partition.replicas if moving is None or b not in moving.adding]
    missing = [b for b in owed if b not in partition.isr]
    least = effective_min_isr(picture.min_isr.get(topic.name), partition)
    if partition.leader == NO_NODE:
        yield Finding("critical", "no leader", where, "cannot be read or written")
    elif len(partition.isr) < least:
        text = f"{len(partition.isr)} in sync, {least} needed: acks=all is refused"
        yield Finding("critical", "under min ISR", where, text)
    elif missing:
        yield Finding("warning", "under-replicated", where, f"out of sync: {', '.join(map(str, missing))}")
    elif partition.leader != partition.preferred:
        text = f"led by {partition.leader} instead of {partition.preferred}"
        yield Finding("info", "leader not preferred", where, text)


async def _controllers(client: Client, info: ClusterInfo) -> list[int]:
    """The voters that are no brokers, by the configuration of a broker: a quorum that has stopped names none."""
    brokers = {broker.id: True for broker in info.brokers}
    live = [broker.id for broker in info.brokers if not broker.fenced]
    if not live:
        return []
    try:
        configs = await topics.describe_configs(client, str(live[0]), kind=topics.BROKER, keys=[VOTERS])
    except ClientError:
        return []
    text = configs[VOTERS].value or "" if VOTERS in configs else ""
    ids = [entry.partition("@")[0].strip() for entry in text.split(",")]
    return [int(voter) for voter in ids if voter.isdecimal() and int(voter) not in brokers]


async def _log_dirs(client: Client, broker: int) -> Sequence[LogDir] | None:
    try:
        return await offsets.describe_log_dirs(client, broker)
    except UnsupportedError:
        return ()
    except ClientError:
        return None


async def _reassignments(client: Client) -> Sequence[Reassignment] | None:
    """None if no controller answers: brokers pass the question on."""
    try:
        return await admin.list_reassignments(client)
    except UnsupportedError:
        return ()
    except ClientError:
        return None


async def _quorum(client: Client) -> QuorumState | None:
    try:
        return await admin.describe_quorum(client)
    except ClientError:
        return None
