"""What a client with given settings sees of a cluster: its topics, or an error that is not retried."""

from __future__ import annotations

import time

import pytest

from insync.client import topics
from insync.client.errors import ClientError
from insync.client.settings import ClientSettings
from insync.client.sync_client import SyncClient

TIMEOUT_S = 60.0
QUICK_S = 20.0
"""Far below the timeout: the error was not retried."""


def list_topics(bootstrap: str, settings: dict[str, str]) -> list[str]:
    with SyncClient(bootstrap, timeout_s=TIMEOUT_S, settings=ClientSettings.of(settings)) as client:
        return [topic.name for topic in client.call(topics.describe)]


def login_error(bootstrap: str, settings: dict[str, str]) -> ClientError:
    """The error, which must come soon."""
    started = time.monotonic()
    with pytest.raises(ClientError) as caught:
        list_topics(bootstrap, settings)
    assert time.monotonic() - started < QUICK_S
    return caught.value
