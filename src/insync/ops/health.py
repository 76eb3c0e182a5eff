"""Is the cluster healthy? A list of findings, worst first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from insync import findings
from insync.client import admin, offsets, topics
from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, RefusedError, UnsupportedError, error_name
from insync.client.model import NO_NODE, ClusterInfo, LogDir, Partition, QuorumState, Reassignment, Topic
from insync.ops.facts import MIN_ISR, effective_min_isr, list_controller_findings, list_node_findings

SEVERITIES = ("critical", "warning", "info")
NEARLY_FULL = 0.95
VOTERS = "controller.quorum.voters"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: str
    """critical: something fails now. warning: less safe than configured. info: nothing is wrong."""
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
    """None for a broker that is in the cluster but does not answer."""
    node_findings: Mapping[int, Sequence[findings.Finding]] = field(default_factory=dict)
    """What brokers report about themselves; only insync's do. NO_NODE is any broker, while none is registered."""
    controller_findings: Mapping[int, Sequence[findings.Finding] | None] = field(default_factory=dict)
    """What dedicated controllers report about themselves; None for one that no broker reaches."""
    controller_answers: bool = True


async def snapshot_cluster(client: Client) -> ClusterSnapshot:
    """Raises RefusedError if the user may not describe the cluster."""
    info = await client.describe_cluster()
    described = await topics.describe(client)
    settings = await topics.describe_topic_configs(client, [topic.name for topic in described], [MIN_ISR])
    live = [broker.id for broker in info.brokers if not broker.fenced]
    dirs = await asyncio.gather(*(_log_dirs(client, broker) for broker in live))
    brokers = live or [NO_NODE]
    reported = await asyncio.gather(*(list_node_findings(client, broker) for broker in brokers))
    controllers = await _controllers(client, info)
    of_controllers = await asyncio.gather(*(list_controller_findings(client, node) for node in controllers))
    reassignments, quorum = await asyncio.gather(_reassignments(client), _quorum(client))
    return ClusterSnapshot(
        info=info,
        topics=described,
        min_isr={name: values.get(MIN_ISR, "1") for name, values in settings.items()},
        reassignments=reassignments or (),
        quorum=quorum,
        log_dirs=dict(zip(live, dirs, strict=True)),
        node_findings=dict(zip(brokers, reported, strict=True)),
        controller_findings=dict(zip(controllers, of_controllers, strict=True)),
        controller_answers=reassignments is not None,
    )


def find_problems(snapshot: ClusterSnapshot) -> list[Finding]:
    """All findings, worst first."""
    findings = [*_brokers(snapshot), *_quorum_findings(snapshot), *_disks(snapshot), *_reported(snapshot)]
    for topic in snapshot.topics:
        for partition in topic.partitions:
            findings += _partition(snapshot, topic, partition)
    findings += [
        Finding("info", "reassigning", f"{r.topic}-{r.partition}", f"moving to {list(r.target)}")
        for r in snapshot.reassignments
    ]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def is_healthy(findings: Sequence[Finding]) -> bool:
    return all(finding.severity == "info" for finding in findings)


def _brokers(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    known = {broker.id for broker in snapshot.info.brokers}
    for broker in snapshot.info.brokers:
        if broker.fenced:
            yield Finding("warning", "fenced", f"broker {broker.id}", "registered, but stopped or without heartbeats")
        elif snapshot.log_dirs.get(broker.id, ()) is None:
            yield Finding("warning", "unreachable", f"broker {broker.id}", f"no answer at {broker.address}")
    used = {b for topic in snapshot.topics for p in topic.partitions for b in p.replicas}
    for missing in sorted(used - known):
        yield Finding("warning", "missing", f"broker {missing}", "has replicas, but is stopped or fenced")


def _quorum_findings(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    if snapshot.info.controller == NO_NODE or not snapshot.controller_answers:
        yield Finding(
            "critical", "no controller", "cluster", "no leader can be elected, and nothing created or changed"
        )
    quorum = snapshot.quorum
    if quorum is None:
        return
    newest = max(voter.last_caught_up_ms for voter in quorum.voters) if quorum.voters else -1
    for voter in quorum.voters:
        silent = newest - voter.last_caught_up_ms
        if voter.id != quorum.leader and (voter.log_end_offset < 0 or silent > 10_000):
            yield Finding(
                "warning", "voter behind", f"controller {voter.id}", "does not follow the leader of the quorum"
            )


def _disks(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for broker, dirs in snapshot.log_dirs.items():
        for entry in dirs or ():
            where = f"broker {broker} {entry.path}"
            if entry.error is not ErrorCode.none:
                yield Finding("critical", "log directory failed", where, error_name(entry.error))
            elif entry.total_bytes > 0 and entry.usable_bytes < entry.total_bytes * (1 - NEARLY_FULL):
                used = 100 - 100 * entry.usable_bytes // entry.total_bytes
                yield Finding("warning", "disk nearly full", where, f"{used} % used")


def _reported(snapshot: ClusterSnapshot) -> Iterator[Finding]:
    for broker, reported in snapshot.node_findings.items():
        for finding in reported:
            severity = finding.severity if finding.severity in SEVERITIES else "warning"
            where = finding.subject if broker == NO_NODE else f"broker {broker} {finding.subject}"
            yield Finding(severity, finding.kind.replace("_", " "), where, finding.text)

    for controller, own in snapshot.controller_findings.items():
        for finding in own or ():
            severity = finding.severity if finding.severity in SEVERITIES else "warning"
            where = f"controller {controller} {finding.subject}"
            yield Finding(severity, finding.kind.replace("_", " "), where, finding.text)


def _partition(snapshot: ClusterSnapshot, topic: Topic, partition: Partition) -> Iterator[Finding]:
    where = f"{topic.name}-{partition.index}"
    moving = next((r for r in snapshot.reassignments if (r.topic, r.partition) == (topic.name, partition.index)), None)
    owed = [b for b in partition.replicas if moving is None or b not in moving.adding]
    missing = [b for b in owed if b not in partition.isr]
    least = effective_min_isr(snapshot.min_isr.get(topic.name), partition)
    if partition.leader == NO_NODE:
        yield Finding("critical", "no leader", where, "cannot be read or written")
    elif len(partition.isr) < least:
        text = f"{len(partition.isr)} in sync, {least} needed: acks=all fails"
        yield Finding("critical", "under min ISR", where, text)
    elif missing:
        yield Finding("warning", "under-replicated", where, f"out of sync: {', '.join(map(str, missing))}")
    elif partition.leader != partition.preferred:
        text = f"led by {partition.leader} instead of {partition.preferred}"
        yield Finding("info", "leader not preferred", where, text)


async def _controllers(client: Client, info: ClusterInfo) -> list[int]:
    """The voters that are not brokers, from a broker's configuration: a stopped quorum could not name them."""
    brokers = {broker.id: True for broker in info.brokers}
    live = [broker.id for broker in info.brokers if not broker.fenced]
    if not live:
        return []
    try:
        configs = await topics.describe_configs(client, str(live[0]), kind=topics.BROKER, keys=[VOTERS])
    except ClientError as error:
        _raise_if_denied(error)
        return []
    text = configs[VOTERS].value or "" if VOTERS in configs else ""
    ids = [entry.partition("@")[0].strip() for entry in text.split(",")]
    return [int(voter) for voter in ids if voter.isdecimal() and int(voter) not in brokers]


async def _log_dirs(client: Client, broker: int) -> Sequence[LogDir] | None:
    try:
        return await offsets.describe_log_dirs(client, broker)
    except UnsupportedError:
        return ()
    except ClientError as error:
        _raise_if_denied(error)
        return None


async def _reassignments(client: Client) -> Sequence[Reassignment] | None:
    """None if no controller answers: brokers forward the request."""
    try:
        return await admin.list_reassignments(client)
    except UnsupportedError:
        return ()
    except ClientError as error:
        _raise_if_denied(error)
        return None


async def _quorum(client: Client) -> QuorumState | None:
    try:
        return await admin.describe_quorum(client)
    except ClientError as error:
        _raise_if_denied(error)
        return None


def _raise_if_denied(error: ClientError) -> None:
    """What a user may not see is neither healthy nor out of order."""
    if isinstance(error, RefusedError) and error.lacks_rights:
        raise error
