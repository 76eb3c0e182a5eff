"""Apache Kafka and insync answer the same requests of the same users in the same way, with the same ACLs.

The users and their ACLs are in `authorization_users`, the requests in `authorization_probes`. What differs on purpose
is in `DELIBERATE`, with the reason; a difference that has gone is reported too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from interop.java import node_processes
from interop.java.authorization_matrix import FORMAT_OPTIONS, Answers, collect_answers, comparable, properties
from interop.java.authorization_probes import PROBES, Probe
from interop.java.node_processes import Node


@dataclass(frozen=True, slots=True)
class Deviation:
    """Why insync answers otherwise. What is said of refusals is compared all the same, unless `refusals` is false."""

    reason: str
    codes: Mapping[str, str] = field(default_factory=dict)
    """insync's error for one of Apache's."""
    refusals: bool = True


_NO_TRANSACTIONS = "There are no transactions."
_NO_SUCH_CONFIGS = "Only topics and brokers have configs."
_ANSWERED = Deviation("An unknown operation gets an error; Apache closes the connection.", refusals=False)
_ON_EVERY_LISTENER = Deviation(
    "A node serves all of its APIs on every listener, those between nodes to principals with CLUSTER_ACTION. Apache's "
    "brokers close the connection.",
    refusals=False,
)
BETWEEN_NODES = sorted(probe.name.rpartition(",")[0] for probe in PROBES if probe.between_nodes and probe.to_controller)
DELIBERATE: dict[str, Deviation] = {
    "produce: transactional, open": Deviation(_NO_TRANSACTIONS),
    "produce: transactional, closed": Deviation(_NO_TRANSACTIONS),
    "init producer id: open": Deviation(_NO_TRANSACTIONS, {"not_coordinator": "transactional_id_authorization_failed"}),
    "init producer id: closed": Deviation(
        _NO_TRANSACTIONS, {"not_coordinator": "transactional_id_authorization_failed"}
    ),
    "describe transactions": Deviation(_NO_TRANSACTIONS),
    "write txn markers, to the broker": Deviation(_NO_TRANSACTIONS, refusals=False),
    **{
        f"consumer group heartbeat: {what}": Deviation("The new group protocol is refused to everyone.", refusals=False)
        for what in ("open", "closed", "mixed")
    },
    **{
        f"{api}: {what}": Deviation(_NO_SUCH_CONFIGS)
        for api in ("describe configs", "alter configs", "incremental alter configs")
        for what in ("group open", "group closed", "client metrics")
    },
    "describe configs: logger": Deviation(_NO_SUCH_CONFIGS),
    "alter configs: broker ''": Deviation("With ELR, Apache's cluster has a dynamic min.insync.replicas to be kept."),
    "describe acls: bad": _ANSWERED,
    "describe acls: bad, to the controller": _ANSWERED,
    "create acls: unknown operation": _ANSWERED,
    "create acls: unknown operation, to the controller": _ANSWERED,
    "delete acls: bad": _ANSWERED,
    "describe users: all, refused": Deviation(
        "Apache does not answer at all: its refusal fails on the missing list of users.", refusals=False
    ),
    **{f"{name}, to the broker": _ON_EVERY_LISTENER for name in BETWEEN_NODES if name != "write txn markers"},
    "fetch the metadata log, to the broker": _ON_EVERY_LISTENER,
    "fetch the metadata log, to the controller": Deviation("The answer to an invalid request has no start of the log."),
    "describe cluster, endpoints 1, to the controller": _ON_EVERY_LISTENER,
    **{
        f"{name}, to the controller": Deviation("The request is refused for another reason.")
        for name in ("vote", "begin quorum epoch", "end quorum epoch", "envelope", "fetch snapshot")
    },
}
"""By the name of a probe."""


@pytest.fixture(scope="module")
def answers(secured_pair: dict[str, Node]) -> dict[str, Answers]:
    return asyncio.run(collect_answers(secured_pair))


@pytest.mark.parametrize("probe", PROBES, ids=[probe.name for probe in PROBES])
def test_every_user_gets_apaches_answer(answers: dict[str, Answers], probe: Probe) -> None:
    deviation = DELIBERATE.get(probe.name)
    differences = find_differences(answers, probe)
    if deviation is None:
        assert not differences, describe(differences)
        return
    assert differences, "no longer a difference"
    if deviation.refusals:
        refusals = [
            (key, user, find_refusals(expected, deviation.codes), find_refusals(actual))
            for key, user, expected, actual in differences
        ]
        unequal = [line for line in refusals if line[2] != line[3]]
        assert not unequal, describe(unequal)


@pytest.mark.parametrize("name", BETWEEN_NODES)
def test_clients_get_the_same_refusals_on_their_listener_as_on_the_controllers(
    answers: dict[str, Answers], name: str
) -> None:
    """A4: what only nodes may send needs CLUSTER_ACTION wherever it arrives."""
    by_listener = {
        where: [
            {user: find_refusals(comparable(answer, 0)) for user, answer in by_user.items()}
            for key, by_user in answers["insync"].items()
            if key.startswith(f"{name}, to the {where} v")
        ]
        for where in ("broker", "controller")
    }
    assert by_listener["broker"] == by_listener["controller"] != []


WITHOUT_ACLS = [
    probe
    for probe in PROBES
    if probe.name
    in (
        "produce: mixed",
        "fetch: mixed",
        "fetch: as a replica",
        "init producer id",
        "list transactions",
        "metadata: operations",
        "commit: mixed",
        "list groups",
        "describe cluster: operations",
        "create topics, validated only: mixed",
        "incremental alter configs: topic and broker",
    )
]
PERMISSIVE_USERS = (
    "nobody",
    "topic.read",
    "topic.describe",
    "group.read",
    "deny.read.allow.describe",
    "write.elsewhere",
)
"""What is asked, as which users, where everyone may do everything with a resource that has no ACLs: as the cluster,
the topic `closed` and the transactional ids."""


@pytest.fixture(scope="module")
def permissive_answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    with node_processes.running_pair(
        tmp_path_factory.mktemp("permissive"), partial(properties, allow_everyone=True), FORMAT_OPTIONS
    ) as pair:
        return asyncio.run(collect_answers(pair, WITHOUT_ACLS, PERMISSIVE_USERS))


@pytest.mark.parametrize("probe", WITHOUT_ACLS, ids=[probe.name for probe in WITHOUT_ACLS])
def test_resources_without_acls_are_as_open_as_apaches(permissive_answers: dict[str, Answers], probe: Probe) -> None:
    differences = find_differences(permissive_answers, probe)
    assert not differences, describe(differences)


Difference = tuple[str, str, Any, Any]
"""The probe with its version, the user, Apache's answer, insync's."""


def find_differences(answers: dict[str, Answers], probe: Probe) -> list[Difference]:
    asked = [key for key in answers["kafka"] if key.rpartition(" v")[0] == probe.name]
    assert asked, f"{probe.name} was not sent"
    return [
        (key, user, expected, actual)
        for key in asked
        for user, answer in answers["kafka"][key].items()
        if (expected := comparable(answer, probe.key))
        != (actual := comparable(answers["insync"][key][user], probe.key))
    ]


def find_refusals(answer: Any, codes: Mapping[str, str] | None = None) -> list[str]:
    """Every authorization error in the answer, in order; `codes` are replaced before."""
    if isinstance(answer, Mapping):
        return [line for key, value in answer.items() for line in find_refusals(value, codes)]
    if isinstance(answer, list):
        return sorted(line for value in answer for line in find_refusals(value, codes))
    code = (codes or {}).get(answer, answer) if isinstance(answer, str) else ""
    return [code] if code.endswith("_authorization_failed") else []


def describe(differences: list[Difference]) -> str:
    """Users with the same pair of answers in one line."""
    users: dict[tuple[str, str, str], list[str]] = {}
    for key, user, expected, actual in differences:
        users.setdefault((key, str(expected), str(actual)), []).append(user)
    return "\n".join(
        f"{key}, as {', '.join(names)}:\n  Apache {expected}\n  insync {actual}"
        for (key, expected, actual), names in users.items()
    )
