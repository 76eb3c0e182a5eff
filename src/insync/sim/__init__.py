"""The deterministic simulator: the nodes' own code on simulated time, network and disks.

`Simulation` is the public interface, for notebooks and tests. The command line (`insync sim`) runs random plans,
scenarios and mutants; the packages below are its parts and may change.
"""

from insync.properties.violation import Violation
from insync.sim.narration.views import PartitionView, RecordView, ReplicaView
from insync.sim.simulation import BrokerView, ConsumeOutcome, ProduceOutcome, Simulation, SimulationStoppedError

__all__ = [
    "BrokerView",
    "ConsumeOutcome",
    "PartitionView",
    "ProduceOutcome",
    "RecordView",
    "ReplicaView",
    "Simulation",
    "SimulationStoppedError",
    "Violation",
]
