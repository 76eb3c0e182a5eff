"""An S3-compatible server in a process of its own: moto's, on loopback. `make s3-server` installs it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

BUCKET = "lakes"
PYTHON = Path(__file__).parents[2] / "build" / "s3-server" / "bin" / "python"
_SERVE = """
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.port, flush=True)
server.serve_forever()
"""


@contextmanager
def run_s3_server() -> Iterator[Mapping[str, str]]:
    """Yields the variables with which clients find it. It has one bucket."""
    assert PYTHON.exists(), "these tests need an S3-compatible server: run `make s3-server` once"
    command = [str(PYTHON), "-c", _SERVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            endpoint = f"http://127.0.0.1:{int(process.stdout.readline())}"
            urlopen(Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
            yield {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "tests",
                "AWS_SECRET_ACCESS_KEY": "tests",
            }
        finally:
            process.kill()
