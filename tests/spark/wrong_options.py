"""Client settings that the source and the sink refuse with the same words."""

from __future__ import annotations

WRONG_CLIENT_SETTINGS = (
    (
        {"kafka.security.protocol": "TLS"},
        "option 'kafka.security.protocol' is 'TLS', but must be one of PLAINTEXT, SSL",
    ),
    ({"kafka.security.protocol": "SASL_SSL"}, "option 'kafka.sasl.mechanism' is missing"),
    ({"kafka.bootstrap.servers": " "}, "option 'kafka.bootstrap.servers' is missing"),
)
"""(option, the beginning of the error)."""
