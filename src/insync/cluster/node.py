"""`python -m insync.cluster.node FILE`: a node that applies the faults it receives, and otherwise like any other.

Its standard input is a socket. Lines with faults arrive there, the first before the node starts, and the node answers
each with its number once the faults are in force.
"""

from __future__ import annotations

import sys

# As in `insync.server`: kio imports hypothesis if it is installed, and a node does not need it.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]

import asyncio  # noqa: E402  only now
import os  # noqa: E402
from collections.abc import Callable  # noqa: E402

from insync.cluster.disk import JOURNAL, FaultyDisk  # noqa: E402
from insync.cluster.faults import Faults, from_line  # noqa: E402
from insync.cluster.network import CutNetwork  # noqa: E402
from insync.server.network import Network  # noqa: E402
from insync.server.process import main  # noqa: E402
from insync.server.properties import Properties  # noqa: E402
from insync.server.server import Server  # noqa: E402

STDIN = 0


class FaultyServer(Server):
    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        self._received = b""
        self._disk = FaultyDisk(properties.directory, os.path.join(os.path.dirname(properties.directory), JOURNAL))
        self._network: CutNetwork | None = None
        self._faults = Faults()
        while b"\n" not in self._received:
            if not self._receive():
                sys.exit("stdin closed before the first faults arrived: this process is started by insync.Cluster")
        self._apply_faults()

    def disk(self) -> FaultyDisk:
        return self._disk

    def clock_ahead_ms(self) -> int:
        return self._faults.clock_ahead_ms

    def network(self, loop: asyncio.AbstractEventLoop) -> Network:
        self._network = CutNetwork(loop, self._faults)
        return self._network

    def watch_supervisor(self, loop: asyncio.AbstractEventLoop, orphaned: Callable[[], None]) -> None:
        loop.add_reader(STDIN, self._on_stdin, loop, orphaned)

    def _on_stdin(self, loop: asyncio.AbstractEventLoop, orphaned: Callable[[], None]) -> None:
        if self._receive():
            self._apply_faults()
        else:
            loop.remove_reader(STDIN)
            orphaned()

    def _receive(self) -> bool:
        """False if the other end is closed."""
        try:
            data = os.read(STDIN, 65_536)
        except ConnectionResetError:  # it closed without reading all our answers
            data = b""
        self._received += data
        return bool(data)

    def _apply_faults(self) -> None:
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            number, self._faults = from_line(line)
            self._disk.full = self._faults.disk_full
            self._disk.fsync_ms = self._faults.fsync_ms
            self._disk.break_sectors(self._faults.bad_sectors)
            if self._network is not None:
                self._network.impose(self._faults)
            os.write(STDIN, b"%d\n" % number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], FaultyServer))
