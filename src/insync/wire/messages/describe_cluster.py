"""DescribeCluster v1: brokers, controller and cluster id."""

from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_cluster.v1.response import DescribeClusterBroker, DescribeClusterResponse

__all__ = ["DescribeClusterBroker", "DescribeClusterRequest", "DescribeClusterResponse"]
