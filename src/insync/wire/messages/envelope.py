"""Envelope v0: a broker forwards a client's whole request to the controller, and its whole answer comes back."""

from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.envelope.v0.response import EnvelopeResponse

__all__ = ["EnvelopeRequest", "EnvelopeResponse"]
