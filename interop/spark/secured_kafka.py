"""One broker of Apache Kafka with locks: a listener with TLS and users, one with TLS and certificates, one without."""

from __future__ import annotations

import subprocess
from pathlib import Path

import apache_kafka

TLS = Path(__file__).parents[2] / "tests" / "data" / "tls"
HOST = apache_kafka.HOST
USER, PASSWORD = "alice", "open sesame"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS = 3_000
_MODULES = "org.apache.kafka.common.security"


class SecuredKafka(apache_kafka.ApacheCluster):
    """`bootstrap` needs no password, `users` takes a name and a password, `certificates` a client's certificate."""

    def __init__(self) -> None:
        super().__init__(1)
        self.users, self.certificates = (f"{HOST}:{port}" for port in apache_kafka._free_ports(2))

    def _properties(self, node: apache_kafka.ApacheNode) -> str:
        open_to_all = f"PLAINTEXT://{HOST}:{node.port},USERS://{self.users},CERTIFICATES://{self.certificates}"
        scram = f"{_MODULES}.scram.ScramLoginModule required;"
        values = {
            "listeners": f"{open_to_all},CONTROLLER://{HOST}:{node.controller_port}",
            "advertised.listeners": open_to_all,
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
        return super()._properties(node) + "".join(f"{key}={value}\n" for key, value in values.items())

    def _format(self, node: apache_kafka.ApacheNode, cluster_id: str) -> subprocess.Popen[bytes]:
        known = [f"--add-scram={name}=[name={USER},password={PASSWORD}]" for name in MECHANISMS[1:]]
        arguments = ("format", f"--cluster-id={cluster_id}", "-c", str(node.properties), *known)
        return apache_kafka._spawn(node, apache_kafka.java("kafka.tools.StorageTool", *arguments))


def trusting() -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(TLS / "ca.pem")}


def login(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        **trusting(),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{_MODULES}.{module} required username="{USER}" password="{password}";',
    }
