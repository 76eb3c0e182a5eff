"""The administration of ACLs, users and quotas through nodes: forwarded to the controller, described by any node."""

from __future__ import annotations

from typing import Any

from insync.controller.config import ControllerConfig
from insync.metadata.changes import Changes
from insync.metadata.security_records import to_scram_record
from insync.node.config import CONTROLLER, AuthorizerConfig
from insync.security.scram import MOCK, make_credential
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_user_scram_credentials,
)
from tests.acl_filters import EVERY_ACL
from tests.node.node_harness import CLUSTER, Net, config


def two_nodes(**fields: Any) -> Net:
    """Node 1 is controller and broker, node 2 a broker that forwards to it."""
    fields.setdefault("authorizer", AuthorizerConfig())
    made = ControllerConfig(cluster_id=CLUSTER, rebalance_interval_ms=0)
    return Net(
        config(1, voters=(1,), controller=made, **fields),
        config(2, voters=(1,), roles=("broker",), controller=made, **fields),
    ).up()


def creation(name: str, principal: str = "User:alice") -> create_acls.AclCreation:
    return create_acls.AclCreation(
        resource_type=2, resource_name=name, principal=principal, host="*", operation=3, permission_type=3
    )


def described_acls(net: Net, node_id: int, **fields: Any) -> list[tuple[str, list[str]]]:
    answer = net.answered(node_id, describe_acls.DescribeAclsRequest(**(EVERY_ACL | fields)))
    assert answer.error_code is ErrorCode.none
    return [(resource.resource_name, [acl.principal for acl in resource.acls]) for resource in answer.resources]


def test_acls_are_created_by_the_controller_and_described_by_every_node() -> None:
    net = two_nodes()
    creations = (creation("b"), creation("a"), creation("b", "User:bob"), creation(""))
    answer = net.answered(2, create_acls.CreateAclsRequest(creations=creations))
    assert [result.error_code for result in answer.results] == [ErrorCode.none] * 3 + [ErrorCode.invalid_request]
    net.advance(1_000)
    for node_id in (1, 2):
        assert described_acls(net, node_id) == [("a", ["User:alice"]), ("b", ["User:alice", "User:bob"])]
        assert described_acls(net, node_id, principal_filter="User:bob") == [("b", ["User:bob"])]
        assert described_acls(net, node_id, resource_type_filter=3) == []
    of_b = delete_acls.DeleteAclsFilter(**(EVERY_ACL | {"resource_name_filter": "b"}))
    removed = net.answered(2, delete_acls.DeleteAclsRequest(filters=(of_b,)))
    assert len(removed.filter_results[0].matching_acls) == 2
    net.advance(1_000)
    assert described_acls(net, 1) == described_acls(net, 2) == [("a", ["User:alice"])]


def test_a_large_request_is_answered_entry_by_entry_in_order() -> None:
    net = two_nodes()
    names = [str(number) if number % 3 else "" for number in range(500)]
    token = net.ask(2, create_acls.CreateAclsRequest(creations=tuple(creation(name) for name in names)))
    net.advance(5_000)
    results = net.answers[token].results
    assert [result.error_code is ErrorCode.none for result in results] == [bool(name) for name in names]
    assert len(described_acls(net, 1)) == sum(map(bool, names))


def test_a_filter_with_unknown_codes_describes_nothing() -> None:
    net = two_nodes()
    answer = net.answered(1, describe_acls.DescribeAclsRequest(**(EVERY_ACL | {"operation": 0})))
    assert (answer.error_code, answer.resources) == (ErrorCode.invalid_request, ())


def test_requests_without_entries_are_answered() -> None:
    net = two_nodes()
    requests = (
        create_acls.CreateAclsRequest(creations=()),
        delete_acls.DeleteAclsRequest(filters=()),
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=(), upsertions=()),
        alter_client_quotas.AlterClientQuotasRequest(entries=(), validate_only=False),
    )
    for request in requests:
        for node_id in (1, 2):
            assert net.answered(node_id, request) is not None


def test_users_are_described_without_their_keys() -> None:
    net = two_nodes(authorizer=None)
    upsertions = tuple(
        alter_user_scram_credentials.ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=4_096 * mechanism, salt=b"salt", salted_password=b"salted"
        )
        for name, mechanism in (("bob", 1), ("alice", 1), ("carol", 2))
    )
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=(), upsertions=upsertions)
    assert {result.error_code for result in net.answered(2, request).results} == {ErrorCode.none}
    net.advance(1_000)

    def describe(*names: str) -> list[tuple[str, ErrorCode, list[tuple[int, int]]]]:
        users = tuple(describe_user_scram_credentials.UserName(name=name) for name in names)
        asked = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=users if names else None)
        return [
            (result.user, result.error_code, [(info.mechanism, info.iterations) for info in result.credential_infos])
            for result in net.answered(2, asked).results
        ]

    assert describe() == [
        ("alice", ErrorCode.none, [(1, 4_096)]),
        ("bob", ErrorCode.none, [(1, 4_096)]),
        ("carol", ErrorCode.none, [(2, 8_192)]),
    ]
    assert describe("carol", "nobody", "bob", "bob") == [
        ("carol", ErrorCode.none, [(2, 8_192)]),
        ("nobody", ErrorCode.resource_not_found, []),
        ("bob", ErrorCode.duplicate_resource, []),
    ]


def test_quotas_are_described_by_filters() -> None:
    net = two_nodes(authorizer=None)
    entities: list[dict[str, str | None]] = [
        {"user": "alice"},
        {"user": None},
        {"user": "alice", "client-id": "app"},
        {"client-id": None},
        {"ip": "10.0.0.1"},
    ]
    entries = tuple(
        alter_client_quotas.RequestEntry(
            entity=tuple(
                alter_client_quotas.RequestEntity(entity_type=kind, entity_name=name) for kind, name in names.items()
            ),
            ops=(
                alter_client_quotas.OpData(
                    key="connection_creation_rate" if "ip" in names else "producer_byte_rate", value=5.0, remove=False
                ),
            ),
        )
        for names in entities
    )
    request = alter_client_quotas.AlterClientQuotasRequest(entries=entries, validate_only=False)
    assert {entry.error_code for entry in net.answered(2, request).entries} == {ErrorCode.none}
    net.advance(1_000)

    def describe(*components: tuple[str, int, str | None], strict: bool = False) -> Any:
        asked = describe_client_quotas.DescribeClientQuotasRequest(
            components=tuple(
                describe_client_quotas.ComponentData(entity_type=kind, match_type=match_type, match=match)
                for kind, match_type, match in components
            ),
            strict=strict,
        )
        return net.answered(2, asked)

    def matching(*components: tuple[str, int, str | None], strict: bool = False) -> list[dict[str, str | None]]:
        answer = describe(*components, strict=strict)
        assert answer.error_code is ErrorCode.none
        assert all([(value.key, value.value) for value in entry.values] for entry in answer.entries)
        return [{part.entity_type: part.entity_name for part in entry.entity} for entry in answer.entries]

    exact, default, any_name = range(3)
    assert matching() == entities
    assert matching(strict=True) == []
    assert matching(("user", exact, "alice")) == [{"user": "alice"}, {"user": "alice", "client-id": "app"}]
    assert matching(("user", exact, "alice"), strict=True) == [{"user": "alice"}]
    assert matching(("user", exact, "")) == []
    assert matching(("user", default, None)) == [{"user": None}]
    assert matching(("user", any_name, None), ("client-id", any_name, None)) == [{"user": "alice", "client-id": "app"}]
    assert matching(("ip", any_name, None)) == [{"ip": "10.0.0.1"}]
    assert matching(("client-id", exact, "nothing")) == []
    refused: list[tuple[list[tuple[str, int, str | None]], ErrorCode]] = [
        ([("", exact, "a")], ErrorCode.invalid_request),
        ([("planet", exact, "mars")], ErrorCode.unsupported_version),
        ([("user", exact, None)], ErrorCode.invalid_request),
        ([("user", default, "a")], ErrorCode.invalid_request),
        ([("user", any_name, "a")], ErrorCode.invalid_request),
        ([("user", 3, None)], ErrorCode.invalid_request),
        ([("user", exact, "a"), ("user", default, None)], ErrorCode.invalid_request),
        ([("user", exact, "a"), ("ip", default, None)], ErrorCode.invalid_request),
    ]
    for components, error in refused:
        answer = describe(*components)
        assert (answer.error_code, answer.entries) == (error, None)
        assert answer.error_message


def test_a_controller_describes_too() -> None:
    net = Net(config(1, roles=(CONTROLLER,), authorizer=AuthorizerConfig())).up()
    answer = net.answered(1, create_acls.CreateAclsRequest(creations=(creation("t"),)))
    assert [result.error_code for result in answer.results] == [ErrorCode.none]
    assert described_acls(net, 1) == [("t", ["User:alice"])]


def test_a_new_cluster_begins_with_the_users_it_was_formatted_with() -> None:
    """Once: what administrators change later stays changed."""
    credential = make_credential("SCRAM-SHA-256", "secret", b"salt", 4_096)
    first = to_scram_record("SCRAM-SHA-256", "alice", credential)
    made = ControllerConfig(cluster_id=CLUSTER, rebalance_interval_ms=0, first_records=(first,))
    net = Net(config(1, controller=made)).up()
    assert net.nodes[1].image.scram_credentials["SCRAM-SHA-256", "alice"] == credential
    deletion = alter_user_scram_credentials.ScramCredentialDeletion(name="alice", mechanism=1)
    request = alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=())
    assert net.answered(1, request).results[0].error_code is ErrorCode.none
    net.restart(1)
    net.advance(15_000)
    assert list(net.nodes[1].image.scram_credentials) == [MOCK]


def test_quotas_are_in_force_where_the_image_has_them_also_from_a_snapshot() -> None:
    """Q6: a snapshot does not say what it no longer has."""
    net = Net(config(1, metadata_snapshot_records=3)).up()
    node = net.nodes[1]

    def alter(limit: float | None) -> None:
        op = alter_client_quotas.OpData(key="producer_byte_rate", value=limit or 0.0, remove=limit is None)
        entity = (alter_client_quotas.RequestEntity(entity_type="user", entity_name="alice"),)
        entry = alter_client_quotas.RequestEntry(entity=entity, ops=(op,))
        request = alter_client_quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=False)
        assert net.answered(1, request).entries[0].error_code is ErrorCode.none

    assert not node.quotas.is_active
    alter(10)
    assert node.quotas.is_active
    alter(None)
    assert not node.quotas.is_active
    for limit in (10, 20, 30, 40):
        alter(limit)
    net.restart(1)
    net.advance(15_000)
    node = net.nodes[1]
    assert node.quotas.limits.find("producer_byte_rate", "alice", "app") is not None
    node.metadata_loader.load_snapshot([], node.metadata_loader.applied, 1)
    node.metadata_loader.finish_loading()
    node._update_quotas(Changes())
    assert not node.quotas.is_active
