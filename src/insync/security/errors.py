"""What goes wrong with security: a setting that cannot be used, or a client that cannot prove whose it is."""

from __future__ import annotations


class SecuritySettingError(ValueError):
    """A setting of TLS or SASL is missing, invalid, or contradicts another.

    Names the setting and what to do. The text never contains a password, a key or a token.
    """

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem


class AuthenticationError(Exception):
    """The client's message is not one of its mechanism, or its proof is wrong. The text is for the log of the node."""

    for_client: str | None = None
    """The message for the client; None: only that its credentials are not valid."""

    @staticmethod
    def for_both(text: str) -> AuthenticationError:
        """With a text that tells the client no more than it knows. Such texts are Kafka's."""
        error = AuthenticationError(text)
        error.for_client = text
        return error
