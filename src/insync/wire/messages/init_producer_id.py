"""InitProducerId v5: an identity for an idempotent producer (P4)."""

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

__all__ = ["InitProducerIdRequest", "InitProducerIdResponse"]
