"""The principals of a simulated cluster with an authorizer: how its nodes know each other and their clients."""

from __future__ import annotations

from collections.abc import Callable

from insync.sansio import UNKNOWN_CLIENT, Client

NODES = "User:nodes"
OPERATOR = "User:operator"
STRANGER = "User:stranger"
"""A principal without rights: a node whose credentials were replaced by wrong ones."""

SUPER_USERS = (NODES, OPERATOR)

_OPERATOR_ID = -1

ClientOf = Callable[[int], Client]
"""From the id of an endpoint to what its connections show of it."""


def no_principals(endpoint: int) -> Client:
    """For clusters without an authorizer."""
    return UNKNOWN_CLIENT


def principal_of_client(client_id: int) -> str:
    return OPERATOR if client_id == _OPERATOR_ID else f"User:client{-client_id}"


class Principals:
    """Nodes have ids above 0, clients and the operator below."""

    def __init__(self) -> None:
        self.strangers: dict[int, None] = {}
        """Nodes with wrong credentials."""
        self._clients: dict[str, Client] = {}

    def client_of(self, endpoint: int) -> Client:
        of_node = STRANGER if endpoint in self.strangers else NODES
        principal = principal_of_client(endpoint) if endpoint < 0 else of_node
        if principal not in self._clients:
            self._clients[principal] = Client(host="10.0.0.1", principal=principal)
        return self._clients[principal]
