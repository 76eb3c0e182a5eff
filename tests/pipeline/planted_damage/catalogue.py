"""Every kind of damage that an audit of log directories should name: how to plant it, and what the audit should say."""

from __future__ import annotations

from tests.pipeline.planted_damage import (
    batches,
    checkpoints,
    directories,
    identities,
    indexes,
    quorum,
    replica_files,
    replicas,
    segments,
)

DAMAGES = (
    batches.DAMAGES
    | segments.DAMAGES
    | indexes.DAMAGES
    | replica_files.DAMAGES
    | checkpoints.DAMAGES
    | directories.DAMAGES
    | identities.DAMAGES
    | quorum.DAMAGES
    | replicas.DAMAGES
)
