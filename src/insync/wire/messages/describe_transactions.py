"""DescribeTransactions v0."""

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TransactionState

__all__ = ["DescribeTransactionsRequest", "DescribeTransactionsResponse", "TransactionState"]
