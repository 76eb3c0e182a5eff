"""UpdateFeatures v2: finalized feature levels; one result for all of a request's features."""

from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

__all__ = ["FeatureUpdateKey", "UpdateFeaturesRequest", "UpdateFeaturesResponse"]
