"""DescribeCluster v2: brokers, fenced ones too if asked for, controller and cluster id."""

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse

__all__ = ["DescribeClusterBroker", "DescribeClusterRequest", "DescribeClusterResponse"]
