"""The rules of Kafka's StandardAuthorizer."""

from __future__ import annotations

import random

import pytest

from insync.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    find_creation_error,
    find_filter_error,
)
from insync.security.authorizer import Authorizer, is_denial, is_permission

ALICE, BOB = "User:alice", "User:bob"
HOST = "10.0.0.1"
TOPIC = ResourceType.TOPIC


def acl(
    operation: Operation,
    name: str = "orders",
    *,
    principal: str = ALICE,
    host: str = "*",
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    resource: ResourceType = TOPIC,
) -> Acl:
    return Acl(
        resource_type=resource,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


def authorizer(*acls: Acl, allow_if_no_acl: bool = False) -> Authorizer:
    made = Authorizer(["User:admin"], allow_if_no_acl=allow_if_no_acl)
    for one in acls:
        made.add(one)
    return made


def may(made: Authorizer, operation: Operation, name: str = "orders", principal: str = ALICE, host: str = HOST) -> bool:
    return made.authorize(principal, host, operation, TOPIC, name).allowed


def test_a_resource_without_a_matching_acl_is_closed_except_to_super_users() -> None:
    made = authorizer(acl(Operation.READ, principal=BOB))
    assert not may(made, Operation.READ)
    assert may(made, Operation.READ, principal=BOB)
    assert may(made, Operation.READ, principal="User:admin")


def test_a_deny_wins_over_every_allow() -> None:
    made = authorizer(acl(Operation.ALL), acl(Operation.WRITE, "*", principal="User:*", permission=Permission.DENY))
    assert may(made, Operation.READ)
    assert not may(made, Operation.WRITE)
    assert made.authorize(ALICE, HOST, Operation.WRITE, TOPIC, "orders").rule == acl(
        Operation.WRITE, "*", principal="User:*", permission=Permission.DENY
    )


@pytest.mark.parametrize("stronger", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_describe_is_implied_by_an_allow_and_not_denied_by_a_deny(stronger: Operation) -> None:
    assert may(authorizer(acl(stronger)), Operation.DESCRIBE)
    made = authorizer(acl(Operation.DESCRIBE), acl(stronger, permission=Permission.DENY))
    assert may(made, Operation.DESCRIBE)
    assert not may(made, stronger)


def test_alter_configs_implies_describe_configs_only() -> None:
    made = authorizer(acl(Operation.ALTER_CONFIGS))
    assert may(made, Operation.DESCRIBE_CONFIGS)
    assert not may(made, Operation.DESCRIBE)
    assert not may(authorizer(acl(Operation.DESCRIBE)), Operation.READ)


def test_prefixed_and_wildcard_patterns_match_names() -> None:
    made = authorizer(acl(Operation.READ, "team-a.", pattern=PatternType.PREFIXED), acl(Operation.WRITE, "*"))
    assert may(made, Operation.READ, "team-a.orders")
    assert may(made, Operation.READ, "team-a.")
    assert not may(made, Operation.READ, "team-a")
    assert not may(made, Operation.READ, "x-team-a.orders")
    assert may(made, Operation.WRITE, "anything")


def test_a_prefixed_star_is_a_prefix_and_no_wildcard() -> None:
    made = authorizer(acl(Operation.READ, "*", pattern=PatternType.PREFIXED))
    assert may(made, Operation.READ, "*starts-with-a-star")
    assert not may(made, Operation.READ, "orders")


def test_hosts_are_compared_exactly() -> None:
    made = authorizer(acl(Operation.READ, host=HOST))
    assert may(made, Operation.READ)
    assert not may(made, Operation.READ, host="10.0.0.10")


def test_without_acls_everything_is_open_if_so_configured_and_only_then() -> None:
    made = authorizer(acl(Operation.READ, principal=BOB), allow_if_no_acl=True)
    assert not may(made, Operation.READ), "an ACL of another user closes the resource"
    assert may(made, Operation.READ, "payments")
    made.add(acl(Operation.READ, "pay", principal=BOB, pattern=PatternType.PREFIXED))
    assert not may(made, Operation.READ, "payments")


def test_a_removed_acl_has_no_effect_on_decisions_that_were_made_before() -> None:
    rule = acl(Operation.READ, "ord", pattern=PatternType.PREFIXED)
    made = authorizer(rule)
    assert may(made, Operation.READ)
    made.remove(rule)
    made.remove(rule)
    assert not may(made, Operation.READ)
    assert len(made) == 0
    made.add(rule)
    assert may(made, Operation.READ)


def test_of_two_equal_acls_one_remains_when_the_other_is_removed() -> None:
    rule = acl(Operation.READ)
    made = authorizer(rule, rule)
    made.remove(rule)
    assert may(made, Operation.READ)
    made.remove(rule)
    assert not may(made, Operation.READ)


def test_every_change_has_another_version() -> None:
    """A cache of decisions can tell that they are outdated."""
    made = authorizer()
    versions = [made.version]
    for change in (made.add, made.remove):
        change(acl(Operation.READ))
        versions.append(made.version)
    made.clear()
    assert len({*versions, made.version}) == 4


@pytest.mark.parametrize(
    ("in_acl", "client"),
    [("0:0:0:0:0:0:0:1", "::1"), ("::1", "::1"), ("fe80::1", "fe80::1%eth0"), ("10.0.0.1", "::ffff:10.0.0.1")],
)
def test_an_address_may_be_written_in_any_form(in_acl: str, client: str) -> None:
    made = authorizer(acl(Operation.READ, host=in_acl))
    assert may(made, Operation.READ, host=client)
    assert not may(made, Operation.READ, host="::2")


def test_a_decision_on_any_topic_is_none_on_the_topic_without_a_name() -> None:
    made = authorizer(acl(Operation.WRITE))
    assert made.authorize_any(ALICE, HOST, Operation.WRITE, TOPIC).allowed
    assert not may(made, Operation.WRITE, "")


def test_any_topic_is_open_without_acls_only_if_no_acl_is_on_every_topic() -> None:
    """As in Kafka: with an ACL on all topics, no topic is without one."""

    def any_topic(*acls: Acl) -> bool:
        made = authorizer(*acls, allow_if_no_acl=True)
        return made.authorize_any(ALICE, HOST, Operation.WRITE, TOPIC).allowed

    assert any_topic()
    assert any_topic(acl(Operation.READ, "orders", principal=BOB))
    assert not any_topic(acl(Operation.READ, "*", principal=BOB))
    assert any_topic(acl(Operation.READ, "*", principal=BOB), acl(Operation.WRITE, "orders"))


def test_any_topic_is_allowed_unless_a_deny_covers_all_that_is_allowed() -> None:
    def any_topic(*acls: Acl) -> bool:
        return authorizer(*acls).authorize_any(ALICE, HOST, Operation.WRITE, TOPIC).allowed

    deny = Permission.DENY
    prefix = PatternType.PREFIXED
    assert not any_topic()
    assert not any_topic(acl(Operation.WRITE, resource=ResourceType.GROUP))
    assert any_topic(acl(Operation.WRITE))
    assert not any_topic(acl(Operation.WRITE), acl(Operation.WRITE, permission=deny))
    assert any_topic(acl(Operation.WRITE), acl(Operation.WRITE, "payments", permission=deny))
    assert not any_topic(acl(Operation.WRITE), acl(Operation.ALL, "ord", pattern=prefix, permission=deny))
    assert any_topic(acl(Operation.WRITE, "*"), acl(Operation.ALL, "ord", pattern=prefix, permission=deny))
    assert not any_topic(acl(Operation.WRITE, "*"), acl(Operation.WRITE, "*", permission=deny))
    assert any_topic(
        acl(Operation.WRITE, "ord", pattern=prefix), acl(Operation.WRITE, "orders", pattern=prefix, permission=deny)
    )


def test_decisions_equal_those_of_a_scan_of_all_acls() -> None:
    """The tables by name and the cached decisions change only the time that a decision takes."""
    rng = random.Random(7)
    names = ["", "a", "ab", "abc", "b", "*"]
    for _ in range(200):
        acls = [
            acl(
                rng.choice([Operation.ALL, Operation.READ, Operation.WRITE, Operation.DESCRIBE]),
                rng.choice(names[1:]),
                principal=rng.choice([ALICE, BOB, "User:*"]),
                host=rng.choice([HOST, "*"]),
                permission=rng.choice([Permission.ALLOW, Permission.DENY]),
                pattern=rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            )
            for _ in range(rng.randrange(8))
        ]
        made = authorizer(*acls)
        for removed in acls[: rng.randrange(3)]:
            made.remove(removed)
            acls.remove(removed)
        for _ in range(20):
            principal, name = rng.choice([ALICE, BOB]), rng.choice(names)
            operation = rng.choice([Operation.READ, Operation.WRITE, Operation.DESCRIBE])
            applying = [
                one
                for one in acls
                if one.covers_name(name) and one.principal in (principal, "User:*") and one.host in (HOST, "*")
            ]
            expected = not any(is_denial(one, operation) for one in applying) and any(
                is_permission(one, operation) for one in applying
            )
            assert may(made, operation, name, principal) is expected, (acls, principal, operation, name)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (acl(Operation.ANY), "operation ANY"),
        (acl(Operation.UNKNOWN), "operation UNKNOWN"),
        (acl(Operation.READ, permission=Permission.ANY), "permissionType ANY"),
        (acl(Operation.READ, pattern=PatternType.MATCH), "patternType MATCH"),
        (acl(Operation.READ, principal="alice"), "'alice'"),
        (acl(Operation.READ, ""), "Resource name"),
        (acl(Operation.ALTER, "other", resource=ResourceType.CLUSTER), CLUSTER_NAME),
        (acl(Operation.ALTER, "*", resource=ResourceType.CLUSTER), CLUSTER_NAME),
        (acl(Operation.READ, resource=ResourceType.ANY), "resourceType ANY"),
    ],
)
def test_an_acl_that_means_nothing_is_refused_with_what_is_wrong(wrong: Acl, what: str) -> None:
    error = find_creation_error(wrong)
    assert error is not None
    assert what in error


def test_acls_of_every_resource_type_can_be_created() -> None:
    for resource, operations in SUPPORTED_OPERATIONS.items():
        name = CLUSTER_NAME if resource is ResourceType.CLUSTER else "x"
        for operation in (*operations, Operation.ALL):
            assert find_creation_error(acl(operation, name, resource=resource)) is None


def test_filters_match_by_each_field() -> None:
    literal, prefixed, star = (
        acl(Operation.READ),
        acl(Operation.WRITE, "ord", pattern=PatternType.PREFIXED, principal=BOB, host=HOST),
        acl(Operation.ALL, "*", permission=Permission.DENY, resource=ResourceType.GROUP),
    )

    def matching(wanted: AclFilter) -> list[Acl]:
        return [one for one in (literal, prefixed, star) if wanted.matches(one)]

    assert matching(AclFilter()) == [literal, prefixed, star]
    assert matching(AclFilter(resource_type=TOPIC)) == [literal, prefixed]
    assert matching(AclFilter(resource_name="orders")) == [literal]
    assert matching(AclFilter(resource_name="orders", pattern_type=PatternType.MATCH)) == [literal, prefixed, star]
    assert matching(AclFilter(resource_name="ord", pattern_type=PatternType.PREFIXED)) == [prefixed]
    assert matching(AclFilter(pattern_type=PatternType.LITERAL)) == [literal, star]
    assert matching(AclFilter(principal=BOB)) == [prefixed]
    assert matching(AclFilter(host=HOST)) == [prefixed]
    assert matching(AclFilter(operation=Operation.ALL)) == [star]
    assert matching(AclFilter(permission=Permission.ALLOW)) == [literal, prefixed]


def test_a_filter_with_codes_that_nothing_has_is_refused() -> None:
    assert find_filter_error(AclFilter()) is None
    unknown = AclFilter(resource_type=ResourceType(99), permission=Permission(0))
    assert find_filter_error(unknown) == "The filter has an unknown code for ResourceType and Permission."
