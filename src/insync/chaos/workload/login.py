"""How the clients of a workload log in to a secured cluster. The password may change while they run."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

from insync.client.settings import ClientSettings

_USER, _PASSWORD = "sasl.username", "sasl.password"


class Confluent(Protocol):
    """A producer or a consumer of confluent-kafka."""

    def set_sasl_credentials(self, username: str, password: str, /) -> None: ...


class Login:
    """Without settings: to a cluster without security."""

    def __init__(self, librdkafka: Mapping[str, Any] | None = None) -> None:
        """`librdkafka`: its settings, without addresses."""
        self._settings = dict(librdkafka or {})
        self._clients: list[Confluent] = []
        self._lock = threading.Lock()

    @property
    def user(self) -> str:
        return str(self._settings[_USER])

    @property
    def librdkafka(self) -> dict[str, Any]:
        with self._lock:
            return dict(self._settings)

    @property
    def client_settings(self) -> ClientSettings:
        """For insync's own client, which knows librdkafka's names too."""
        return ClientSettings.of({name: str(value) for name, value in self.librdkafka.items()})

    def add(self, client: Confluent) -> None:
        """A client that was made with these settings and follows changes of the password."""
        with self._lock:
            self._clients.append(client)

    def change_password(self, password: str) -> None:
        with self._lock:
            self._settings[_PASSWORD] = password
            for client in self._clients:
                client.set_sasl_credentials(str(self._settings[_USER]), password)
