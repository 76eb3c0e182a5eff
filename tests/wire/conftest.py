"""A busy machine must not fail a property: examples have no deadline."""

from hypothesis import settings

settings.register_profile("wire", deadline=None)
settings.load_profile("wire")
