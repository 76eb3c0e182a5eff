"""One broker of Apache Kafka with three listeners: plaintext, TLS with users, and TLS with client certificates."""

from __future__ import annotations

from pathlib import Path

import apache_kafka

TLS = Path(__file__).parents[2] / "tests" / "data" / "tls"
HOST = apache_kafka.HOST
USER, PASSWORD = "alice", "open sesame"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM_MECHANISMS)
SESSION_MS = 3_000
_MODULES = "org.apache.kafka.common.security"


class SecuredKafka(apache_kafka.ApacheCluster):
    """`bootstrap` is the plaintext listener, `users` asks for a user and password, `certificates` for a certificate."""

    format_options = tuple(f"--add-scram={name}=[name={USER},password={PASSWORD}]" for name in SCRAM_MECHANISMS)

    def __init__(self) -> None:
        super().__init__(1)
        self.users, self.certificates = (f"{HOST}:{port}" for port in apache_kafka.free_ports(2))

    def node_settings(self, node: apache_kafka.ApacheNode) -> dict[str, str]:
        listeners = f"PLAINTEXT://{HOST}:{node.port},USERS://{self.users},CERTIFICATES://{self.certificates}"
        scram = f"{_MODULES}.scram.ScramLoginModule required;"
        return {
            **super().node_settings(node),
            "listeners": f"{listeners},CONTROLLER://{HOST}:{node.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(
                ("PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", "USERS:SASL_SSL", "CERTIFICATES:SSL")
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(TLS / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(TLS / "ca.pem"),
            "listener.name.certificates.ssl.client.auth": "required",
            "listener.name.users.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.users.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.users.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.users.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            ),
            "listener.name.users.connections.max.reauth.ms": str(SESSION_MS),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "num.io.threads": "2",
            "num.network.threads": "1",
        }


def tls_settings() -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(TLS / "ca.pem")}


def login_settings(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        **tls_settings(),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{_MODULES}.{module} required username="{USER}" password="{password}";',
    }
