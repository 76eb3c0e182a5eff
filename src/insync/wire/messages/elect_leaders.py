"""ElectLeaders v2: preferred (0) or unclean (1) elections on demand."""

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

__all__ = ["ElectLeadersRequest", "ElectLeadersResponse", "PartitionResult", "ReplicaElectionResult", "TopicPartitions"]
