"""AllocateProducerIds v0: a broker takes a block of producer ids from the controller."""

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse

__all__ = ["AllocateProducerIdsRequest", "AllocateProducerIdsResponse"]
