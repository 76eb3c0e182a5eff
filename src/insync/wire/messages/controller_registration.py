"""ControllerRegistration v0: a controller tells its listeners and features."""

from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest, Feature, Listener
from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse

__all__ = ["ControllerRegistrationRequest", "ControllerRegistrationResponse", "Feature", "Listener"]
