"""Every target, by name."""

from __future__ import annotations

from fuzz.target import Target
from fuzz.targets import (
    batches,
    files,
    groups,
    logs,
    metadata,
    nodes,
    quorums,
    requests,
    responses,
    restarts,
    sasl,
    settings,
    values,
)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        requests.TARGET,
        responses.TARGET,
        nodes.TARGET,
        quorums.TARGET,
        settings.TARGET,
        batches.TARGET,
        logs.TARGET,
        restarts.TARGET,
        metadata.RECORDS,
        metadata.SNAPSHOTS,
        groups.TARGET,
        files.PROPERTIES,
        files.CHECKPOINTS,
        sasl.SESSIONS,
        sasl.CREDENTIALS,
        values.TARGET,
    )
}
