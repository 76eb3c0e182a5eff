"""AlterUserScramCredentials and AlterClientQuotas, decided as Kafka's controller decides them."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from typing import Any

import pytest

from insync.controller import scram_credentials
from insync.metadata.security_records import to_scram_record
from insync.security.quotas import DEFAULT, QuotaEntity
from insync.security.scram import MOCK, ScramCredential, make_credential
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_client_quotas, alter_user_scram_credentials
from tests.controller.controller_harness import Cluster

SHA_256, SHA_512 = 1, 2
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SALTED = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4_096)
"""RFC 7677's example."""

# --- users ---


def upsert(name: str = "alice", mechanism: int = SHA_256, iterations: int = 4_096, salted: bytes = SALTED) -> Any:
    return alter_user_scram_credentials.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def remove(name: str = "alice", mechanism: int = SHA_256) -> Any:
    return alter_user_scram_credentials.ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter_users(cluster: Cluster, *upsertions: Any, deletions: tuple[Any, ...] = ()) -> dict[str, ErrorCode]:
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    response = cluster.handle("alter_user_scram_credentials", request)
    return {result.user: result.error_code for result in response.results}


def users_of(cluster: Cluster) -> dict[tuple[str, str], ScramCredential]:
    """Without the mock credential."""
    return {key: credential for key, credential in cluster.image.scram_credentials.items() if key != MOCK}


def test_the_first_user_comes_with_the_key_of_mock_credentials() -> None:
    """It then stays, also when all users are removed, and is not a user that could be removed."""
    cluster = Cluster()
    alter_users(cluster, upsert(""))
    assert not cluster.image.scram_credentials
    alter_users(cluster, upsert())
    key = cluster.image.scram_credentials[MOCK]
    assert len(key.server_key) == 64
    alter_users(cluster, upsert("bob"), deletions=(remove(), remove("", SHA_512)))
    alter_users(cluster, deletions=(remove("bob"),))
    assert cluster.image.scram_credentials == {MOCK: key}


def test_a_new_controller_adds_the_key_of_mock_credentials_if_it_is_missing() -> None:
    """Users of `insync format` and of kafka-storage come without it."""
    user = to_scram_record("SCRAM-SHA-256", "node", make_credential("SCRAM-SHA-256", "x", SALT, 4_096))
    cluster = Cluster(first_records=(user,))
    assert list(cluster.image.scram_credentials) == [("SCRAM-SHA-256", "node"), MOCK]


def test_the_keys_of_a_user_are_derived_from_the_salted_password() -> None:
    cluster = Cluster()
    assert alter_users(cluster, upsert()) == {"alice": ErrorCode.none}
    expected = make_credential("SCRAM-SHA-256", "pencil", SALT, 4_096)
    assert users_of(cluster) == {("SCRAM-SHA-256", "alice"): expected}


def test_a_user_may_have_a_credential_per_mechanism() -> None:
    cluster = Cluster()
    alter_users(cluster, upsert())
    alter_users(cluster, upsert(mechanism=SHA_512, iterations=8_192))
    assert list(users_of(cluster)) == [("SCRAM-SHA-256", "alice"), ("SCRAM-SHA-512", "alice")]
    assert alter_users(cluster, deletions=(remove(),)) == {"alice": ErrorCode.none}
    assert list(users_of(cluster)) == [("SCRAM-SHA-512", "alice")]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (upsert(""), ErrorCode.unacceptable_credential),
        (upsert(mechanism=0), ErrorCode.unsupported_sasl_mechanism),
        (upsert(mechanism=3), ErrorCode.unsupported_sasl_mechanism),
        (upsert(iterations=4_095), ErrorCode.unacceptable_credential),
        (upsert(iterations=16_385), ErrorCode.unacceptable_credential),
        (upsert(salted=b""), ErrorCode.unacceptable_credential),
    ],
)
def test_a_credential_that_kafka_refuses_is_refused(change: Any, error: ErrorCode) -> None:
    cluster = Cluster()
    assert alter_users(cluster, change, upsert("bob", iterations=16_384)) == {change.name: error, "bob": ErrorCode.none}
    assert list(users_of(cluster)) == [("SCRAM-SHA-256", "bob")]


def test_what_does_not_exist_cannot_be_deleted() -> None:
    cluster = Cluster()
    alter_users(cluster, upsert())
    results = alter_users(cluster, deletions=(remove(mechanism=SHA_512), remove("bob"), remove("")))
    assert results == {
        "alice": ErrorCode.resource_not_found,
        "bob": ErrorCode.resource_not_found,
        "": ErrorCode.unacceptable_credential,
    }


def test_a_user_is_altered_once_per_request_or_not_at_all() -> None:
    """Also by a deletion and an upsertion, and for different mechanisms."""
    cluster = Cluster()
    alter_users(cluster, upsert("alice"), upsert("bob"), upsert("carol"))
    before = len(cluster.log)
    results = alter_users(
        cluster,
        upsert("alice", iterations=8_192),
        upsert("carol", SHA_512),
        upsert("carol", SHA_256),
        upsert("carol", SHA_512),
        deletions=(remove("alice"), remove("bob"), remove("bob", SHA_512), remove("bob")),
    )
    assert set(results.values()) == {ErrorCode.duplicate_resource}
    assert len(cluster.log) == before


def test_many_users_are_decided_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_credentials, "_CHECKED_PER_SLICE", 1)
    cluster = Cluster(max_slice_records=2)
    assert len(alter_users(cluster, *(upsert(f"user-{n}") for n in range(7)))) == 7
    assert len(users_of(cluster)) == 7
    assert max(len(decision.records) for decision in cluster.decisions[1:]) == 2
    cluster.by_slice = True
    deletions = tuple(remove(f"user-{n}") for n in range(7))
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=())
    cluster.handle("alter_user_scram_credentials", request)
    cluster.handle("alter_user_scram_credentials", request)
    while cluster.slices:
        cluster.next_slice()
    assert not users_of(cluster)
    removals = [record for record in cluster.log if hasattr(record, "mechanism") and not hasattr(record, "salt")]
    assert len(removals) == 7, "what another request removed meanwhile is not removed twice"


# --- quotas ---

_Names = dict[str, str | None]


def entry(names: _Names, ops: dict[str, float | None]) -> alter_client_quotas.RequestEntry:
    return alter_client_quotas.RequestEntry(
        entity=tuple(
            alter_client_quotas.RequestEntity(entity_type=kind, entity_name=name) for kind, name in names.items()
        ),
        ops=tuple(
            alter_client_quotas.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in ops.items()
        ),
    )


def alter_quotas(
    cluster: Cluster, *entries: alter_client_quotas.RequestEntry, validate_only: bool = False
) -> list[ErrorCode]:
    request = alter_client_quotas.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    return [result.error_code for result in cluster.handle("alter_client_quotas", request).entries]


def test_quotas_are_set_changed_and_removed() -> None:
    cluster = Cluster()
    assert (
        alter_quotas(
            cluster,
            entry({"user": "alice"}, {"producer_byte_rate": 1_024, "request_percentage": 12.5}),
            entry({"user": None, "client-id": "app"}, {"consumer_byte_rate": 2_048}),
            entry({"ip": None}, {"connection_creation_rate": 10}),
            entry({"ip": "::1"}, {"connection_creation_rate": 5}),
        )
        == [ErrorCode.none] * 4
    )
    assert cluster.image.client_quotas == {
        QuotaEntity("alice"): {"producer_byte_rate": 1_024, "request_percentage": 12.5},
        QuotaEntity(DEFAULT, "app"): {"consumer_byte_rate": 2_048},
        QuotaEntity(ip=DEFAULT): {"connection_creation_rate": 10},
        QuotaEntity(ip="::1"): {"connection_creation_rate": 5},
    }
    changes: dict[str, float | None] = {"producer_byte_rate": None, "request_percentage": 50, "unknown": None}
    assert alter_quotas(cluster, entry({"user": "alice"}, changes)) == [ErrorCode.none]
    assert cluster.image.client_quotas[QuotaEntity("alice")] == {"request_percentage": 50}
    before = len(cluster.log)
    assert alter_quotas(cluster, entry({"user": "alice"}, {"request_percentage": 50})) == [ErrorCode.none]
    assert len(cluster.log) == before, "nothing changed"


def test_validate_only_changes_nothing() -> None:
    cluster = Cluster()
    good, bad = entry({"user": "a"}, {"producer_byte_rate": 1}), entry({"user": "b"}, {"producer_byte_rate": -1})
    assert alter_quotas(cluster, good, bad, validate_only=True) == [ErrorCode.none, ErrorCode.invalid_request]
    assert not cluster.image.client_quotas


@pytest.mark.parametrize(
    ("names", "ops"),
    [
        ({}, {"producer_byte_rate": 1}),
        ({"user": ""}, {"producer_byte_rate": 1}),
        ({"planet": "mars"}, {"producer_byte_rate": 1}),
        ({"user": "a", "ip": "10.0.0.1"}, {"producer_byte_rate": 1}),
        ({"ip": "a.host.name"}, {"connection_creation_rate": 1}),
        ({"ip": "10.0.0.1"}, {"producer_byte_rate": 1}),
        ({"user": "a"}, {"connection_creation_rate": 1}),
        ({"user": "a"}, {"unknown": 1}),
        ({"user": "a"}, {"producer_byte_rate": 0}),
        ({"user": "a"}, {"producer_byte_rate": 1.5}),
        ({"user": "a"}, {"producer_byte_rate": 1e30}),
        ({"user": "a"}, {"request_percentage": float("nan")}),
        ({"user": "a"}, {"request_percentage": float("inf")}),
        ({"ip": None}, {"connection_creation_rate": 2.0**31}),
    ],
)
def test_a_quota_that_kafka_refuses_is_refused_whole(names: _Names, ops: dict[str, float | None]) -> None:
    cluster = Cluster()
    with_removal: dict[str, float | None] = {"consumer_byte_rate": None, **ops}
    assert alter_quotas(cluster, entry(names, with_removal)) == [ErrorCode.invalid_request]
    assert not cluster.image.client_quotas


def test_an_entity_or_a_key_that_is_named_twice_is_refused() -> None:
    """As in Kafka the first change of an entity is made, and the answer is the error of the second."""
    cluster = Cluster()
    first = entry({"user": "a", "client-id": "b"}, {"producer_byte_rate": 1})
    second = entry({"client-id": "b", "user": "a"}, {"producer_byte_rate": 2})
    assert alter_quotas(cluster, first, second) == [ErrorCode.invalid_request]
    assert cluster.image.client_quotas == {QuotaEntity("a", "b"): {"producer_byte_rate": 1}}
    op = alter_client_quotas.OpData(key="producer_byte_rate", value=3.0, remove=False)
    names = (alter_client_quotas.RequestEntity(entity_type="user", entity_name="c"),)
    assert alter_quotas(cluster, alter_client_quotas.RequestEntry(entity=names, ops=(op, op))) == [
        ErrorCode.invalid_request
    ]
    assert QuotaEntity("c") not in cluster.image.client_quotas
