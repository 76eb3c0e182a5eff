"""`ssl.principal.mapping.rules`: the cases of KIP-371."""

from __future__ import annotations

import pytest

from insync.security.principal import MappingRuleError, map_name, parse_rules

NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "mapped"),
    [
        ("", NAME, NAME),
        ("DEFAULT", NAME, NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", NAME, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", NAME, "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", NAME, "DUKE@SERVICEUSERS"),
        ("RULE:^CN=(.*?),OU=Admins.*$/$1/, DEFAULT", NAME, NAME),
        ("RULE:^CN=(.*?),OU=Admins.*$/$1/,RULE:^.*O=(\\w+).*$/$1/L", NAME, "org"),
        (r"RULE:^CN=(.*?)\/(.*)$/$1\/$2/", "CN=a/b", "a/b"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(rules: str, name: str, mapped: str) -> None:
    assert map_name(parse_rules(rules), name) == mapped


def test_a_name_that_no_rule_matches_is_refused() -> None:
    with pytest.raises(MappingRuleError, match="CN=Duke"):
        map_name(parse_rules("RULE:^CN=x$/$0/"), NAME)


@pytest.mark.parametrize("rules", ["RULE:", "RULE:a/b", "default", "DEFAULT DEFAULT", "RULE:(/x/", "RULE:a/$1/"])
def test_a_rule_that_cannot_be_read_is_refused(rules: str) -> None:
    with pytest.raises(MappingRuleError, match=r"ssl\.principal\.mapping\.rules"):
        parse_rules(rules)
