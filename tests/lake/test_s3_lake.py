"""A lake on an S3-compatible server: processes killed with -9, answers that the network loses, tables."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from insync.lake.directory import Lake, load_ledger
from insync.lake.journal import EntryTakenError
from insync.lake.ledger import RANGES
from insync.lake.location import open_store
from insync.lake.staging import open_file
from insync.lake.store import LakeError
from insync.lake.tables.delta import get_storage_options, open_delta_lake
from insync.lake.tables.iceberg import get_catalog_properties, open_iceberg_lake
from insync.pipeline.archive.verify import verify_lake
from tests.lake.archive_forever import write_range
from tests.lake.rest_catalog import run_rest_catalog
from tests.lake.s3_server import BUCKET, run_s3_server
from tests.lake.table_ranges import write

ROOT = Path(__file__).parents[2]
SETTINGS = {"isolation": "read_committed"}
KILLS = int(os.environ.get("INSYNC_KILL_ROUNDS", "2"))
SEED = int(os.environ.get("INSYNC_KILL_SEED", "4"))


@pytest.fixture(scope="module")
def server() -> Iterator[Mapping[str, str]]:
    with run_s3_server() as variables:
        yield variables


@pytest.fixture(autouse=True)
def environment(server: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.items():
        monkeypatch.setenv(name, value)


def read_offsets(place: str) -> list[int]:
    ledger = load_ledger(place)
    tables = [open_file(ledger.lake, path).read(columns=["offset"]) for path in ledger.files()]
    return sorted(offset for table in tables for offset in table.column(0).to_pylist())


def test_killed_processes_lose_and_double_nothing() -> None:
    place = f"s3://{BUCKET}/kills"
    rng = random.Random(SEED)
    script = [sys.executable, "-m", "tests.lake.archive_forever", place]
    committed = 0
    for _ in range(KILLS):
        with subprocess.Popen(script, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(rng.randrange(2, 6)):
                line = process.stdout.readline()
                assert line, "the archiver ended"
            threading.Event().wait(rng.uniform(0.0, 0.1))  # into the middle of what it does next
            process.send_signal(signal.SIGKILL)
            committed = max([committed, *(int(text) for text in (line, *process.stdout) if text.strip().isdigit())])
        offsets = read_offsets(place)
        assert offsets == list(range(len(offsets)))
        assert len(offsets) >= committed
    with Lake.open(place, SETTINGS), Lake.open_for_compaction(place):
        pass
    report = verify_lake(place)
    assert report.problems == []
    assert read_offsets(place) == offsets


def test_of_two_archivers_the_first_is_fenced() -> None:
    place = f"s3://{BUCKET}/two"
    with Lake.open(place, SETTINGS) as first, Lake.open(place, SETTINGS) as second:
        of_first, of_second = (write_range(lake.store, 0, 10, attempt=lake.writer) for lake in (first, second))
        with pytest.raises(EntryTakenError, match="another process is writing this journal"):
            first.ledger.commit(RANGES, first.writer, ranges=[of_first])
        second.ledger.commit(RANGES, second.writer, ranges=[of_second])
    assert read_offsets(place) == list(range(10))


class LossyProxy:
    """Passes requests on to a server, and closes some connections instead of passing the answer back."""

    def __init__(self, endpoint: str, *, lose: bytes) -> None:
        self._target = urlsplit(endpoint).hostname, urlsplit(endpoint).port
        self._lose = lose
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """A connection has one request: the server closes it after its answer."""
        with client, socket.create_connection(self._target) as upstream:
            request = b""
            while not _is_complete(request):
                data = client.recv(1 << 16)
                if not data:
                    return
                request += data
            upstream.sendall(request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
            answer = b"".join(iter(lambda: upstream.recv(1 << 16), b""))
            if self.lost < 2 and request.startswith(b"PUT") and self._lose in request.partition(b"\r\n")[0]:
                self.lost += 1
                return
            client.sendall(answer)

    def close(self) -> None:
        self._listener.close()


def _is_complete(request: bytes) -> bool:
    head, separator, body = request.partition(b"\r\n\r\n")
    lengths = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return bool(separator) and len(body) >= int(lengths[0] if lengths else 0)


def test_a_conditional_put_whose_answer_the_network_loses_is_recognised(
    server: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"s3://{BUCKET}/lossy"
    proxy = LossyProxy(server["AWS_ENDPOINT_URL"], lose=b"/_ledger/")
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    with Lake.open(place, SETTINGS) as lake:
        lake.ledger.commit(RANGES, lake.writer, ranges=[write_range(lake.store, 0, 10, attempt=lake.writer)])
    assert proxy.lost == 2
    proxy.close()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server["AWS_ENDPOINT_URL"])
    assert load_ledger(place).entries == 2
    assert read_offsets(place) == list(range(10))


def test_a_bucket_that_is_missing_is_named() -> None:
    with pytest.raises(
        LakeError, match=r"cannot list s3://nowhere/lake.*NoSuchBucket|cannot list s3://nowhere/lake.*404"
    ):
        Lake.open("s3://nowhere/lake", SETTINGS)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_a_delta_table_is_written_and_read_on_the_server() -> None:
    root = open_store(f"s3://{BUCKET}/delta")
    first = open_delta_lake(root, SETTINGS)
    first.commit(RANGES, "me", ranges=[write(first, 0, 10)])
    second = open_delta_lake(root, SETTINGS)
    assert second.partitions() == [("orders", 0)]
    second.commit(RANGES, "other", ranges=[write(second, 10, 20, attempt="cd")])
    with pytest.raises(EntryTakenError):
        first.commit(RANGES, "me", ranges=[write(first, 10, 20, attempt="ef")])
    table = DeltaTable(f"{root}/orders", storage_options=get_storage_options(root))
    assert sorted(table.to_pyarrow_table().column("offset").to_pylist()) == list(range(20))


@pytest.mark.parametrize("catalog", ["sql", "rest"])
def test_an_iceberg_table_is_written_and_read_on_the_server(tmp_path: Path, catalog: str) -> None:
    """In a SQL catalog on this machine, and in a REST catalog. Records without a sensible date are rewritten."""
    root = open_store(f"s3://{BUCKET}/iceberg-{catalog}")
    properties = get_catalog_properties(root, f"sqlite:///{tmp_path}/catalog.db")
    s3 = {name: value for name, value in properties.items() if name.startswith("s3.")}
    with run_rest_catalog(tmp_path, warehouse=str(root), **s3) as server:
        uri = server.uri if catalog == "rest" else properties["uri"]
        first = open_iceberg_lake(root, uri, "insync", SETTINGS)
        first.commit(RANGES, "me", ranges=[write(first, 0, 10)])
        second = open_iceberg_lake(root, uri, "insync", SETTINGS)
        second.commit(RANGES, "other", ranges=[write(second, 10, 12, attempt="cd", times=[-5 * 86_400_000, 1])])
        with pytest.raises(EntryTakenError):
            first.commit(RANGES, "me", ranges=[write(first, 10, 20, attempt="ef")])
        table = load_catalog("insync", uri=uri, **s3).load_table(("insync", "orders"))
        assert sorted(table.scan().to_arrow().column("offset").to_pylist()) == list(range(12))
