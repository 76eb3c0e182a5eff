"""Security of a local cluster: its authority, its certificates and first users, and the settings of nodes and clients.

Clients use one listener, with the protocol that was asked for. Nodes use listeners of their own, NODES for brokers and
CONTROLLER for the quorum, with TLS and a certificate on both sides; every node's certificate stands for User:nodes.
That user and `admin` may do everything. Other users may use all topics and groups, by ACLs that the cluster begins
with, and may not administer the cluster.

All of it is in the directory `security` of the cluster, and stays when the cluster is started again:

    cluster.json         the protocol, and the first users with their passwords
    ca.pem, ca.key       the authority
    node-1.pem           a node's key and certificate; supervisor.pem: those of the process that starts the nodes
    clients/alice.*      how alice connects: .properties for Java and --client-config, .conf for librdkafka and kcat,
                         .pem with key and certificate for the protocol SSL
"""

from __future__ import annotations

import json
import secrets
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from insync.metadata.security_records import to_acl_record, to_scram_record
from insync.security.acl import WILDCARD, Acl, Operation, ResourceType
from insync.security.certificates import Authority, write_private
from insync.security.scram import HASHES, MIN_ITERATIONS, make_credential
from insync.server import bootstrap_metadata
from insync.server.cluster_layout import ADMIN, PROTOCOLS
from insync.server.listeners import SecurityProtocol
from insync.server.startup_error import StartupError

DEFAULT_USER = "user"
NODES_PRINCIPAL = "nodes"
MECHANISM = "SCRAM-SHA-512"
"""What clients are configured with; SCRAM-SHA-256 works too."""
CLIENTS = ("java", "librdkafka", "confluent-kafka", "kafka-python", "aiokafka")
HOSTS = ("localhost", "127.0.0.1", "::1")

_PASSWORD_BYTES = 15
_NODE_ORGANIZATION = "insync nodes"
PRINCIPAL_RULES = f"RULE:^CN=[^,]*,O={_NODE_ORGANIZATION}$/{NODES_PRINCIPAL}/,RULE:^CN=([^,]+)$/$1/"


class LocalSecurity:
    """Of the cluster in `cluster_directory`."""

    def __init__(self, cluster_directory: Path, protocol: SecurityProtocol, users: Mapping[str, str]) -> None:
        self.directory = cluster_directory / "security"
        self.protocol = protocol
        self.users = dict(users)
        """The first users and their passwords, the admin's included."""
        self._authority: Authority | None = None

    @staticmethod
    def prepare(
        cluster_directory: Path, protocol: str | None, users: Mapping[str, str] | None, *, has_data: bool
    ) -> LocalSecurity | None:
        """The security of the cluster in this directory, or of a new one; None if it has none. Writes nothing."""
        stored = _load(cluster_directory)
        if stored is not None:
            if protocol is not None and _parse_protocol(protocol) is not stored.protocol:
                raise StartupError(
                    f"{cluster_directory} holds a cluster whose clients use {stored.protocol.name}. Start it with "
                    f"--secure {stored.protocol.name.lower()}, or without --secure."
                )
            if users is not None and users.items() - stored.users.items():
                raise StartupError(
                    f"{cluster_directory} holds a cluster that has its users. Add others with `insync user add`."
                )
            return stored
        if protocol is None:
            if users:
                raise StartupError("Users need a secured cluster. Name its security, such as sasl_ssl.")
            return None
        if has_data:
            raise StartupError(
                f"{cluster_directory} holds a cluster without security. Use another directory, or secure its nodes one "
                "by one as docs/guides/security.md describes."
            )
        chosen = _parse_protocol(protocol)
        return LocalSecurity(cluster_directory, chosen, _with_passwords(users))

    # --- files -------------------------------------------------------------------------------------------------------

    def write(self, node_ids: Sequence[int], bootstrap: str, hosts: Sequence[str] = ()) -> None:
        """Write what is missing; the files of clients are written again, because they name the ports. Certificates are
        issued again for `hosts` that a certificate need not name."""
        others = tuple(dict.fromkeys(host for host in hosts if host not in HOSTS))
        clients = self.directory / "clients"
        clients.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory.chmod(0o700)
        state = self.directory / "cluster.json"
        if not state.exists():
            Authority.create("insync local CA").write(self.directory / "ca.pem", self.directory / "ca.key")
            values = {"version": 1, "protocol": self.protocol.name, "users": self.users}
            write_private(state, json.dumps(values, indent=1).encode() + b"\n")
        for node_id in node_ids:
            if others or not self.node_certificate(node_id).exists():
                self.issue_node(node_id, hosts=(*HOSTS, *others))
        supervisor = self.directory / "supervisor.pem"
        if not supervisor.exists():
            self.authority.issue("supervisor", organization=_NODE_ORGANIZATION).write(supervisor)
        for user in self.users:
            self._write_client(user, bootstrap)

    def issue_node(self, node_id: int, *, hosts: tuple[str, ...] | None = None, is_expired: bool = False) -> None:
        """Write a new certificate for a node. A running node notices it and uses it for new connections."""
        certificate = self.authority.issue(
            f"node-{node_id}",
            hosts=HOSTS if hosts is None else hosts,
            organization=_NODE_ORGANIZATION,
            is_expired=is_expired,
        )
        certificate.write(self.node_certificate(node_id))

    def write_client_certificate(self, user: str, *, is_trusted: bool = True, is_expired: bool = False) -> Path:
        """A key and a certificate that stands for this user. One that is not trusted is signed by another authority."""
        authority = self.authority if is_trusted else Authority.create("another CA")
        path = self.client_file(user, "pem" if is_trusted and not is_expired else f"{secrets.token_hex(4)}.pem")
        authority.issue(user, is_expired=is_expired).write(path)
        return path

    def node_certificate(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.pem"

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def authority(self) -> Authority:
        if self._authority is None:
            self._authority = Authority.read(self.ca, self.directory / "ca.key")
        return self._authority

    def client_file(self, user: str, suffix: str) -> Path:
        return self.directory / "clients" / f"{user}.{suffix}"

    def _write_client(self, user: str, bootstrap: str) -> None:
        if self.protocol is SecurityProtocol.SSL and not self.client_file(user, "pem").exists():
            self.write_client_certificate(user)
        for client, suffix in (("java", "properties"), ("librdkafka", "conf")):
            settings = self.client_settings(user, bootstrap, client)
            text = "".join(f"{key}={value}\n" for key, value in settings.items())
            write_private(self.client_file(user, suffix), text.encode())

    def describe(self) -> dict[str, object]:
        return {
            "protocol": self.protocol.name,
            "ca": str(self.ca),
            "clients": {user: str(self.client_file(user, "properties")) for user in self.users},
        }

    # --- nodes -------------------------------------------------------------------------------------------------------

    def bootstrap_checkpoint(self) -> bytes:
        """The credentials and ACLs that the cluster begins with."""
        credentials = (
            to_scram_record(
                mechanism, user, make_credential(mechanism, password, secrets.token_bytes(24), MIN_ITERATIONS)
            )
            for user, password in self.users.items()
            for mechanism in HASHES
            if self.protocol.uses_sasl
        )
        rights = (
            to_acl_record(
                UUID(bytes=secrets.token_bytes(16), version=4),
                Acl(
                    resource_type=resource_type,
                    resource_name=WILDCARD,
                    principal=f"User:{user}",
                    operation=Operation.ALL,
                ),
            )
            for user in self.users
            for resource_type in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
            if user != ADMIN
        )
        return bootstrap_metadata.encode((*credentials, *rights))

    def node_settings(self, node_id: int) -> dict[str, str]:
        """What the listeners of a node need besides `listeners`, and who may do what."""
        settings = {
            "listener.security.protocol.map": f"CLIENTS:{self.protocol.name},NODES:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "NODES",
            "controller.listener.names": "CONTROLLER",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.node_certificate(node_id)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "ssl.principal.mapping.rules": PRINCIPAL_RULES,
            "ssl.allow.dn.changes": "true",  # tests replace certificates by wrong ones
            "ssl.allow.san.changes": "true",
            "listener.name.nodes.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:{NODES_PRINCIPAL}",
        }
        if self.protocol is SecurityProtocol.SSL:
            settings["listener.name.clients.ssl.client.auth"] = "required"
        if self.protocol.uses_sasl:
            settings["sasl.enabled.mechanisms"] = ",".join(HASHES)
        return settings

    def supervisor_context(self) -> ssl.SSLContext:
        """For connections of the process that starts the nodes to their own listeners."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(str(self.directory / "supervisor.pem"))
        return context

    # --- clients -----------------------------------------------------------------------------------------------------

    def client_settings(
        self, user: str, bootstrap: str, client: str = "java", password: str | None = None
    ) -> dict[str, Any]:
        """How this user connects, as settings of one of CLIENTS. Users that were added later need their `password`."""
        if client not in CLIENTS:
            raise ValueError(f"There are no settings for the client {client!r}; use one of {', '.join(CLIENTS)}.")
        given = self.users.get(user, "") if password is None else password
        if self.protocol.uses_sasl and not given:
            raise ValueError(
                f"The cluster did not begin with a user {user!r}, but with {', '.join(self.users)}. "
                "Give the password of a user that was added later."
            )
        if client == "java":
            return self._java_settings(user, given, bootstrap)
        if client in ("kafka-python", "aiokafka"):
            return self._python_settings(user, given, bootstrap, client)
        return self._librdkafka_settings(user, given, bootstrap)

    def _java_settings(self, user: str, password: str, bootstrap: str) -> dict[str, Any]:
        settings = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol.name}
        if self.protocol.uses_sasl:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            settings["sasl.mechanism"] = MECHANISM
            settings["sasl.jaas.config"] = f'{module} required username="{user}" password="{password}";'
        if self.protocol.uses_tls:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        if self.protocol is SecurityProtocol.SSL:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.client_file(user, "pem"))}
        return settings

    def _librdkafka_settings(self, user: str, password: str, bootstrap: str) -> dict[str, Any]:
        settings = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol.name}
        if self.protocol.uses_sasl:
            settings |= {"sasl.mechanism": MECHANISM, "sasl.username": user, "sasl.password": password}
        if self.protocol.uses_tls:
            settings["ssl.ca.location"] = str(self.ca)
        if self.protocol is SecurityProtocol.SSL:
            pem = str(self.client_file(user, "pem"))
            settings |= {"ssl.certificate.location": pem, "ssl.key.location": pem}
        return settings

    def _python_settings(self, user: str, password: str, bootstrap: str, client: str) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": bootstrap.split(","), "security_protocol": self.protocol.name}
        if self.protocol.uses_sasl:
            settings |= {
                "sasl_mechanism": MECHANISM,
                "sasl_plain_username": user,
                "sasl_plain_password": password,
            }
        pem = str(self.client_file(user, "pem")) if self.protocol is SecurityProtocol.SSL else ""
        if self.protocol.uses_tls and client == "aiokafka":
            context = ssl.create_default_context(cafile=str(self.ca))
            if pem:
                context.load_cert_chain(pem)
            settings["ssl_context"] = context
        elif self.protocol.uses_tls:
            settings["ssl_cafile"] = str(self.ca)
            settings |= {"ssl_certfile": pem, "ssl_keyfile": pem} if pem else {}
        return settings


def _load(cluster_directory: Path) -> LocalSecurity | None:
    path = cluster_directory / "security" / "cluster.json"
    if not path.exists():
        return None
    try:
        values = json.loads(path.read_bytes())
        protocol, users = SecurityProtocol[values["protocol"]], dict(values["users"])
    except (ValueError, KeyError, TypeError) as error:
        raise StartupError(f"{path} is damaged ({error!r}). Restore it from a backup.") from None
    return LocalSecurity(cluster_directory, protocol, users)


def _parse_protocol(text: str) -> SecurityProtocol:
    if text.lower() not in PROTOCOLS:
        raise StartupError(f"{text!r} is not one of {', '.join(PROTOCOLS)}.")
    return SecurityProtocol[text.upper()]


def _with_passwords(users: Mapping[str, str] | None) -> dict[str, str]:
    """The admin and the other first users; by default one, with a random password."""
    for user, password in (users or {}).items():
        if not user or not user.isascii() or not user.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise StartupError(f"The user name {user!r} must consist of letters, digits, dots, dashes and underscores.")
        if user == NODES_PRINCIPAL:
            raise StartupError(f"The user name {user!r} is that of the nodes. Choose another.")
        if not password or '"' in password or "\\" in password or not password.isprintable():
            raise StartupError(
                f"The password of {user!r} must not be empty, and have only printable characters but no quotes and "
                "backslashes, which the files of clients would have to escape."
            )
    chosen = dict(users) if users is not None else {DEFAULT_USER: secrets.token_urlsafe(_PASSWORD_BYTES)}
    return {ADMIN: secrets.token_urlsafe(_PASSWORD_BYTES), **chosen}
