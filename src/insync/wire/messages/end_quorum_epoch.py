"""EndQuorumEpoch v1: a quorum leader resigns and names successors."""

from kio.schema.end_quorum_epoch.v1 import request, response

EndQuorumEpochRequest = request.EndQuorumEpochRequest
LeaderEndpoint = request.LeaderEndpoint
RequestPartition = request.PartitionData
ReplicaInfo = request.ReplicaInfo
RequestTopic = request.TopicData
EndQuorumEpochResponse = response.EndQuorumEpochResponse
NodeEndpoint = response.NodeEndpoint
ResponsePartition = response.PartitionData
ResponseTopic = response.TopicData

__all__ = [
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "LeaderEndpoint",
    "NodeEndpoint",
    "ReplicaInfo",
    "RequestPartition",
    "RequestTopic",
    "ResponsePartition",
    "ResponseTopic",
]
