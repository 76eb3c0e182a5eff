"""AssignReplicasToDirs v0 (KIP-858): a broker says where its replicas are; `LOST` says that one cannot be used (D6)."""

from uuid import UUID

from kio.schema.assign_replicas_to_dirs.v0 import request, response

AssignReplicasToDirsRequest = request.AssignReplicasToDirsRequest
RequestDirectory = request.DirectoryData
RequestTopic = request.TopicData
RequestPartition = request.PartitionData
AssignReplicasToDirsResponse = response.AssignReplicasToDirsResponse
ResponseDirectory = response.DirectoryData
ResponseTopic = response.TopicData
ResponsePartition = response.PartitionData

LOST = UUID(int=1)
"""Kafka's DirectoryId.LOST: the replica is in a log directory that has failed."""

__all__ = [
    "LOST",
    "AssignReplicasToDirsRequest",
    "AssignReplicasToDirsResponse",
    "RequestDirectory",
    "RequestPartition",
    "RequestTopic",
    "ResponseDirectory",
    "ResponsePartition",
    "ResponseTopic",
]
