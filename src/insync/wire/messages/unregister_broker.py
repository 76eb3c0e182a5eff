"""UnregisterBroker v0: forget a broker."""

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

__all__ = ["UnregisterBrokerRequest", "UnregisterBrokerResponse"]
