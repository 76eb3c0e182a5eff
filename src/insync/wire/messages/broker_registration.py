"""BrokerRegistration v4: a broker joins, telling its previous epoch after a clean stop (B1, B5)."""

from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse

__all__ = ["BrokerRegistrationRequest", "BrokerRegistrationResponse", "Feature", "Listener"]
