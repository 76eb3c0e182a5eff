"""A setting of TLS or SASL that is missing, invalid, or contradicts another."""

from __future__ import annotations


class SecuritySettingError(ValueError):
    """Names the setting and what to do. The text never contains a password, a key or a token."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem
