"""DescribeTopicPartitions v0: the one client API that shows the ELR."""

from kio.schema.describe_topic_partitions.v0 import request, response

RequestCursor = request.Cursor
DescribeTopicPartitionsRequest = request.DescribeTopicPartitionsRequest
TopicRequest = request.TopicRequest
ResponseCursor = response.Cursor
DescribeTopicPartitionsResponse = response.DescribeTopicPartitionsResponse
DescribeTopicPartitionsResponsePartition = response.DescribeTopicPartitionsResponsePartition
DescribeTopicPartitionsResponseTopic = response.DescribeTopicPartitionsResponseTopic

__all__ = [
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTopicPartitionsResponsePartition",
    "DescribeTopicPartitionsResponseTopic",
    "RequestCursor",
    "ResponseCursor",
    "TopicRequest",
]
