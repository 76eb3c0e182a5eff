"""The principal of a TLS client: its distinguished name, as `ssl.principal.mapping.rules` rewrite it (KIP-371).

A rule is `DEFAULT`, or `RULE:pattern/replacement/` with an optional `L` or `U` for lower or upper case. The first rule
whose pattern matches the whole name counts. `$1` in the replacement is the first group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

ANONYMOUS = "User:ANONYMOUS"
DEFAULT = "DEFAULT"
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*", re.DOTALL)
_GROUP = re.compile(r"\$(\d)")


class MappingRuleError(ValueError):
    """A rule of `ssl.principal.mapping.rules` cannot be read, or none matches a name."""


@dataclass(frozen=True, slots=True)
class MappingRule:
    pattern: re.Pattern[str] | None
    """None: the name as it is."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The mapped name; None if the rule does not match."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        mapped = _GROUP.sub(lambda group: match[int(group[1])] or "", self.replacement)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """The rules, separated by commas; `DEFAULT` if there are none."""
    rules = []
    position = 0
    while position < len(text.rstrip()):
        match = _RULE.match(text, position)
        if match is None:
            raise MappingRuleError(
                f"ssl.principal.mapping.rules cannot be read from {text[position:]!r} on: "
                "a rule is DEFAULT or RULE:pattern/replacement/[LU]"
            )
        rules.append(MappingRule(None) if match[1] else _rule(match[2], match[3], match[4]))
        position = match.end()
        if position < len(text):
            if text[position] != ",":
                raise MappingRuleError(f"ssl.principal.mapping.rules needs a comma before {text[position:]!r}")
            position += 1
    return tuple(rules) or (MappingRule(None),)


def _rule(pattern: str, replacement: str, case: str) -> MappingRule:
    try:
        compiled = re.compile(pattern.replace("\\/", "/"))
    except re.error as error:
        raise MappingRuleError(
            f"ssl.principal.mapping.rules has the pattern {pattern!r}, which is not valid: {error}"
        ) from None
    for group in _GROUP.findall(replacement):
        if int(group) > compiled.groups:
            raise MappingRuleError(f"ssl.principal.mapping.rules uses ${group}, but {pattern!r} has no such group")
    return MappingRule(compiled, replacement.replace("\\/", "/"), case)


def map_name(rules: Sequence[MappingRule], distinguished_name: str) -> str:
    for rule in rules:
        name = rule.apply(distinguished_name)
        if name is not None:
            return name
    raise MappingRuleError(f"No rule of ssl.principal.mapping.rules matches the name {distinguished_name!r}")
