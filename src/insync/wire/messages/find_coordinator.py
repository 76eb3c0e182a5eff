"""FindCoordinator v6: which broker coordinates each of some groups."""

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

__all__ = ["Coordinator", "FindCoordinatorRequest", "FindCoordinatorResponse"]
