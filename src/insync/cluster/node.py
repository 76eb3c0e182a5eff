"""`python -m insync.cluster.node FILE`: one node that fails when it is told to, and is otherwise a node like any other.

Its standard input is a socket: lines with faults come in, the first before anything else is done, and their numbers go
out once they are in force.
"""

from __future__ import annotations

import sys

# As in `insync.server`: kio imports hypothesis where it finds it, and a node has no use for it.
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
        self._heard = b""
        self._disk = FaultyDisk(properties.directory, os.path.join(os.path.dirname(properties.directory), JOURNAL))
        self._network: CutNetwork | None = None
        self._faults = Faults()
        while b"\n" not in self._heard:
            if not self._listen():
                sys.exit("stdin closed before the first faults arrived: this process is started by insync.Cluster")
        self._obey()

    def disk(self) -> FaultyDisk:
        return self._disk

    def network(self, loop: asyncio.AbstractEventLoop) -> Network:
        self._network = CutNetwork(loop, self._faults)
        return self._network

    def watch_supervisor(self, loop: asyncio.AbstractEventLoop, orphaned: Callable[[], None]) -> None:
        loop.add_reader(STDIN, self._told, loop, orphaned)

    def _told(self, loop: asyncio.AbstractEventLoop, orphaned: Callable[[], None]) -> None:
        if self._listen():
            self._obey()
        else:
            loop.remove_reader(STDIN)
            orphaned()

    def _listen(self) -> bool:
        """False: the other end is gone."""
        try:
            data = os.read(STDIN, 65_536)
        except ConnectionResetError:  # it went without reading all our answers
            data = b""
        self._heard += data
        return bool(data)

    def _obey(self) -> None:
        *lines, self._heard = self._heard.split(b"\n")
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
