"""Configs with where they come from, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable

from insync.client.model import Config

DEFAULT = 5
SOURCES = {
    1: "topic",
    2: "broker, dynamic",
    3: "all brokers, dynamic",
    4: "broker's file",
    DEFAULT: "default",
    6: "logger",
}
"""By Kafka's number."""


def config_rows(configs: Iterable[Config], *, every: bool) -> list[dict[str, str]]:
    """Without `every`, only those that are set somewhere."""
    return [
        {
            "config": config.name,
            "value": "(hidden)" if config.sensitive else config.value or "",
            "source": SOURCES.get(config.source, "unknown"),
        }
        for config in sorted(configs, key=lambda config: config.name)
        if every or config.source != DEFAULT
    ]
