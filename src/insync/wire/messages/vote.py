"""Vote v2: votes and pre-votes of the metadata quorum (Q5)."""

from kio.schema.vote.v2 import request, response

RequestPartition = request.PartitionData
RequestTopic = request.TopicData
VoteRequest = request.VoteRequest
NodeEndpoint = response.NodeEndpoint
ResponsePartition = response.PartitionData
ResponseTopic = response.TopicData
VoteResponse = response.VoteResponse

__all__ = [
    "NodeEndpoint",
    "RequestPartition",
    "RequestTopic",
    "ResponsePartition",
    "ResponseTopic",
    "VoteRequest",
    "VoteResponse",
]
