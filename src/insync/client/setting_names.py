"""The setting names of Kafka's clients, to distinguish settings without effect here from misspelt ones.

Also which of them are secret: their values must not appear in errors or logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_SECRET = re.compile(r"password|passphrase|secret|token|jaas|credential|private|keystore\.key$|key\.pem$", re.I)

SECURITY = (
    *("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.jaas.config", "sasl.username", "sasl.password"),
    *("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.certificates", "ssl.ca.location", "ssl.ca.pem"),
    *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.key", "ssl.keystore.certificate.chain"),
    *("ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password"),
    "ssl.endpoint.identification.algorithm",
)
COMMON = (
    *SECURITY,
    *("bootstrap.servers", "client.id", "request.timeout.ms", "default.api.timeout.ms"),
    *("socket.connection.setup.timeout.ms", "retry.backoff.ms", "retry.backoff.max.ms"),
)
"""Effective wherever this client is used."""
READING = ("fetch.min.bytes", "fetch.max.wait.ms", "fetch.max.bytes", "max.partition.fetch.bytes")
"""Effective wherever records are read."""

_OTHERS = """
acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size bootstrap.controllers buffer.memory
check.crcs client.dns.lookup client.rack compression.gzip.level compression.lz4.level compression.type
compression.zstd.level connections.max.idle.ms delivery.timeout.ms enable.auto.commit enable.idempotence
enable.metrics.push exclude.internal.topics group.id group.instance.id group.protocol group.remote.assignor
heartbeat.interval.ms interceptor.classes isolation.level key.deserializer key.serializer linger.ms max.block.ms
max.in.flight.requests.per.connection max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms
metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
metrics.num.samples metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms retries sasl.client.callback.handler.class
sasl.login.callback.handler.class sasl.login.class security.providers send.buffer.bytes session.timeout.ms
share.acknowledgement.mode socket.connection.setup.timeout.max.ms ssl.cipher.suites ssl.enabled.protocols
ssl.engine.factory.class ssl.keymanager.algorithm ssl.keystore.password ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.password transaction.timeout.ms
transaction.two.phase.commit.enable transactional.id value.deserializer value.serializer
"""
_FAMILIES = ("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.")

_KNOWN = frozenset((*COMMON, *READING, *_OTHERS.split()))


def find_unknown(names: Iterable[str]) -> dict[str, str]:
    """The names that no Kafka client has, each with the most similar known name, or an empty string."""
    unknown = [name for name in names if name not in _KNOWN and not name.startswith(_FAMILIES)]
    return {name: "".join(get_close_matches(name, sorted(_KNOWN), 1)) for name in unknown}


def find_ineffective(names: Iterable[str], used: Iterable[str]) -> list[str]:
    """The names that Java's clients know but that are not in `used`."""
    given = list(names)
    unknown = find_unknown(given)
    effective = frozenset(used)
    return [name for name in given if name not in unknown and name not in effective]


def shown(name: str, value: str) -> str:
    """A value for a message; a secret is not shown."""
    return "(not shown)" if _SECRET.search(name) or _SECRET.search(value) else repr(value)
