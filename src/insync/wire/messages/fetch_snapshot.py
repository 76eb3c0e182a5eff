"""FetchSnapshot v1: a piece of a metadata snapshot (Q6)."""

from kio.schema.fetch_snapshot.v1 import request, response

FetchSnapshotRequest = request.FetchSnapshotRequest
RequestPartition = request.PartitionSnapshot
RequestSnapshotId = request.SnapshotId
RequestTopic = request.TopicSnapshot
FetchSnapshotResponse = response.FetchSnapshotResponse
LeaderIdAndEpoch = response.LeaderIdAndEpoch
NodeEndpoint = response.NodeEndpoint
ResponsePartition = response.PartitionSnapshot
ResponseSnapshotId = response.SnapshotId
ResponseTopic = response.TopicSnapshot

__all__ = [
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "RequestPartition",
    "RequestSnapshotId",
    "RequestTopic",
    "ResponsePartition",
    "ResponseSnapshotId",
    "ResponseTopic",
]
