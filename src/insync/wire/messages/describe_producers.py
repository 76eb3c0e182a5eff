"""DescribeProducers v0: who writes to a partition."""

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

__all__ = [
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "PartitionResponse",
    "ProducerState",
    "TopicRequest",
    "TopicResponse",
]
