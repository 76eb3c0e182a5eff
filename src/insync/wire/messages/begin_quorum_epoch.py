"""BeginQuorumEpoch v1: a new quorum leader announces itself."""

from kio.schema.begin_quorum_epoch.v1 import request, response

BeginQuorumEpochRequest = request.BeginQuorumEpochRequest
LeaderEndpoint = request.LeaderEndpoint
RequestPartition = request.PartitionData
RequestTopic = request.TopicData
BeginQuorumEpochResponse = response.BeginQuorumEpochResponse
NodeEndpoint = response.NodeEndpoint
ResponsePartition = response.PartitionData
ResponseTopic = response.TopicData

__all__ = [
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "LeaderEndpoint",
    "NodeEndpoint",
    "RequestPartition",
    "RequestTopic",
    "ResponsePartition",
    "ResponseTopic",
]
