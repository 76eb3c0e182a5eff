"""DescribeQuorum v2: leader, voters and observers of the metadata quorum."""

from kio.schema.describe_quorum.v2 import request, response

DescribeQuorumRequest = request.DescribeQuorumRequest
RequestPartition = request.PartitionData
RequestTopic = request.TopicData
DescribeQuorumResponse = response.DescribeQuorumResponse
Listener = response.Listener
Node = response.Node
ResponsePartition = response.PartitionData
ReplicaState = response.ReplicaState
ResponseTopic = response.TopicData

__all__ = [
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "Listener",
    "Node",
    "ReplicaState",
    "RequestPartition",
    "RequestTopic",
    "ResponsePartition",
    "ResponseTopic",
]
