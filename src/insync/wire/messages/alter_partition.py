"""AlterPartition v3: a leader proposes an ISR, each member with its broker epoch (I3, I4)."""

from kio.schema.alter_partition.v3 import request, response

AlterPartitionRequest = request.AlterPartitionRequest
BrokerState = request.BrokerState
RequestPartition = request.PartitionData
RequestTopic = request.TopicData
AlterPartitionResponse = response.AlterPartitionResponse
ResponsePartition = response.PartitionData
ResponseTopic = response.TopicData

__all__ = [
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "BrokerState",
    "RequestPartition",
    "RequestTopic",
    "ResponsePartition",
    "ResponseTopic",
]
