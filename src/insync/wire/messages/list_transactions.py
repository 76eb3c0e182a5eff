"""ListTransactions v2."""

from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse

__all__ = ["ListTransactionsRequest", "ListTransactionsResponse"]
