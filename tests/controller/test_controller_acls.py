"""CreateAcls and DeleteAcls, decided by the controller as Kafka's AclControlManager decides them."""

from __future__ import annotations

from typing import Any

import pytest

from insync.controller import acls as controller_acls
from insync.security.acl import Permission
from insync.wire.errors import ErrorCode
from insync.wire.messages import create_acls, delete_acls
from tests.acl_filters import DENIED_READ, EVERY_ACL
from tests.controller.controller_harness import Cluster


def creation(name: str = "orders", **fields: Any) -> create_acls.AclCreation:
    values: dict[str, Any] = {
        "resource_type": 2,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return create_acls.AclCreation(**(values | {"resource_name": name} | fields))


def wanted(**fields: Any) -> delete_acls.DeleteAclsFilter:
    return delete_acls.DeleteAclsFilter(**(EVERY_ACL | fields))


def create(cluster: Cluster, *creations: create_acls.AclCreation) -> list[tuple[ErrorCode, str | None]]:
    response = cluster.handle("create_acls", create_acls.CreateAclsRequest(creations=creations))
    return [(result.error_code, result.error_message) for result in response.results]


def delete(cluster: Cluster, *filters: delete_acls.DeleteAclsFilter) -> Any:
    return cluster.handle("delete_acls", delete_acls.DeleteAclsRequest(filters=filters)).filter_results


def cluster_with(*creations: create_acls.AclCreation) -> Cluster:
    cluster = Cluster(has_authorizer=True, max_slice_records=2)
    assert create(cluster, *creations) == [(ErrorCode.none, None)] * len(creations)
    return cluster


def test_a_created_acl_is_in_the_image_with_an_id_of_its_own() -> None:
    cluster = cluster_with(creation(resource_pattern_type=4, host="10.0.0.1", permission_type=2), creation())
    assert next(iter(cluster.image.acls.values())) == DENIED_READ
    assert len(cluster.image.acls) == 2
    assert all(acl_id.version == 4 for acl_id in cluster.image.acls)


def test_creating_an_acl_again_succeeds_and_writes_nothing() -> None:
    cluster = cluster_with(creation(), creation(), creation("other"))
    assert len(cluster.image.acls) == 2
    before = len(cluster.log)
    assert create(cluster, creation(), creation("other")) == [(ErrorCode.none, None)] * 2
    assert len(cluster.log) == before
    assert len(delete(cluster, wanted(resource_name_filter="orders"))[0].matching_acls) == 1
    create(cluster, creation())
    assert len(cluster.image.acls) == 2


def test_what_kafka_refuses_is_refused_and_the_rest_is_created() -> None:
    cluster = Cluster(has_authorizer=True)
    results = create(
        cluster,
        creation(""),
        creation(resource_type=99),
        creation(resource_type=1),
        creation("x", resource_type=4),
        creation(resource_pattern_type=2),
        creation(operation=1),
        creation(permission_type=1),
        creation(principal="alice"),
        creation("kafka-cluster", resource_type=4),
    )
    assert [error for error, _ in results] == [ErrorCode.invalid_request] * 8 + [ErrorCode.none]
    assert all(message for _, message in results[:8])
    assert [acl.resource_name for acl in cluster.image.acls.values()] == ["kafka-cluster"]


def test_without_an_authorizer_nothing_is_decided() -> None:
    cluster = Cluster()
    assert (
        create(cluster, creation(), creation("")) == [(ErrorCode.security_disabled, "No Authorizer is configured.")] * 2
    )
    assert [result.error_code for result in delete(cluster, wanted())] == [ErrorCode.security_disabled]


def test_filters_remove_what_they_match_and_list_it() -> None:
    cluster = cluster_with(creation("a"), creation("b"), creation("b", principal="User:bob"), creation("*"))
    first, second, third = delete(
        cluster,
        wanted(resource_name_filter="b", pattern_type_filter=3),
        wanted(resource_name_filter="b", pattern_type_filter=2, principal_filter="User:alice"),
        wanted(principal_filter="User:carol"),
    )
    assert [(acl.resource_name, acl.principal) for acl in first.matching_acls] == [
        ("b", "User:alice"),
        ("b", "User:bob"),
    ]
    names = [acl.resource_name for acl in second.matching_acls]
    assert names == ["b", "*"], "all filters see what there was at the beginning"
    assert (third.error_code, third.matching_acls) == (ErrorCode.none, ())
    assert [acl.resource_name for acl in cluster.image.acls.values()] == ["a"]


def test_a_filter_with_unknown_codes_is_refused_and_the_others_count() -> None:
    cluster = cluster_with(creation())
    refused, matched = delete(cluster, wanted(operation=99), wanted())
    assert (refused.error_code, refused.matching_acls) == (ErrorCode.invalid_request, ())
    assert len(matched.matching_acls) == 1
    assert not cluster.image.acls


def test_no_slice_of_a_removal_lets_a_client_do_more() -> None:
    """A8: a denial outlives every permission that the same request removes."""
    cluster = cluster_with(
        creation(operation=3, permission_type=2),
        creation(operation=2),
        creation("b", permission_type=2),
        creation("b", operation=2),
        creation("c", operation=2),
    )
    cluster.by_slice = True
    assert delete_response(cluster) is None
    seen = []
    while cluster.slices:
        seen.append([acl.permission for acl in cluster.image.acls.values()])
        cluster.next_slice()
    assert [(left.count(Permission.ALLOW), left.count(Permission.DENY)) for left in seen] == [(1, 2), (0, 1)]


def delete_response(cluster: Cluster) -> Any:
    return cluster.handle("delete_acls", delete_acls.DeleteAclsRequest(filters=(wanted(),)))


def test_what_another_request_removed_meanwhile_is_not_removed_twice() -> None:
    """S7: a record that removes an unknown ACL would stop every node."""
    cluster = cluster_with(creation("a"), creation("b"), creation("c"))
    cluster.by_slice = True
    delete_response(cluster)
    delete_response(cluster)
    while cluster.slices:
        cluster.next_slice()
    assert not cluster.image.acls


def test_the_work_and_the_answer_of_one_request_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_acls, "_COMPARED_PER_STEP", 5)
    monkeypatch.setattr(controller_acls, "_MAX_MATCHES", 5)
    cluster = cluster_with(creation("a"), creation("b"), creation("c"))
    cluster.by_slice = True
    cluster.handle("delete_acls", delete_acls.DeleteAclsRequest(filters=(wanted(),) * 4))
    steps, response = 0, None
    while cluster.slices:
        response = cluster.next_slice()
        steps += 1
    assert steps >= 3
    assert response is not None
    assert [len(result.matching_acls) for result in response.filter_results] == [3, 3, 0, 0]
    assert response.filter_results[-1].error_code is ErrorCode.invalid_request
