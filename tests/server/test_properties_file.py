"""A node's settings from a file with Kafka's key names."""

from __future__ import annotations

from pathlib import Path

import pytest

from insync.metadata.broker import Endpoint
from insync.node.config import PASSWORD, AuthorizerConfig
from insync.security.sasl import SaslSettings
from insync.server import assembly, properties
from insync.server.endpoints import ListenerAddress
from insync.server.properties import Properties, PropertiesError
from insync.server.static_configs import static_configs

NEEDED = """\
node.id=3
process.roles=broker,controller
controller.quorum.voters=1@one:9093,3@three:9093
log.dirs=/var/lib/insync
"""


def _parsed(more: str = "") -> Properties:
    return properties.parse(NEEDED + more, "node.properties")


def _problem(text: str) -> str:
    with pytest.raises(PropertiesError) as caught:
        properties.parse(text, "node.properties")
    return str(caught.value)


def test_a_file_that_is_not_utf8_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_bytes(NEEDED.encode() + b"broker.rack=caf\xe9\n")
    with pytest.raises(PropertiesError, match=r"node\.properties:5: .*UTF-8"):
        properties.load(str(path))


def test_a_file_has_the_identity_of_a_node() -> None:
    parsed = _parsed("listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n")
    assert (parsed.node_id, parsed.roles, parsed.directory) == (3, ("broker", "controller"), "/var/lib/insync")
    assert parsed.voters == {1: ("one", 9093), 3: ("three", 9093)}
    addresses = [listener.address for listener in parsed.listeners.bound]
    assert addresses == [ListenerAddress("PLAINTEXT", "", 9092), ListenerAddress("CONTROLLER", "", 9093)]


def test_the_controllers_listener_is_not_advertised_to_clients() -> None:
    parsed = _parsed("listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n")
    assert [listener.name for listener in parsed.listeners.advertised] == ["PLAINTEXT"]


def test_settings_go_to_the_part_they_belong_to() -> None:
    parsed = _parsed("broker.session.timeout.ms=7000\nreplica.lag.time.max.ms = 12000\nnum.partitions: 6\n")
    assert parsed.settings["controller"] == {"session_timeout_ms": 7_000, "default_partitions": 6}
    assert parsed.settings["replication"] == {"replica_lag_time_max_ms": 12_000}


def test_topic_defaults_keep_the_brokers_names() -> None:
    assert _parsed("min.insync.replicas=2\nlog.segment.bytes=1048576\n").topic_defaults == {
        "min.insync.replicas": "2",
        "log.segment.bytes": "1048576",
    }


def test_the_finer_unit_of_a_retention_wins() -> None:
    assert _parsed("log.retention.hours=2\n").topic_defaults == {"log.retention.ms": "7200000"}
    assert _parsed("log.retention.hours=2\nlog.retention.ms=5\n").topic_defaults == {"log.retention.ms": "5"}
    assert _parsed("log.retention.hours=-1\n").topic_defaults == {"log.retention.ms": "-1"}


def test_a_profile_sets_what_the_file_does_not() -> None:
    parsed = _parsed("insync.profile=fast\nbroker.session.timeout.ms=777\n")
    assert parsed.settings["controller"]["session_timeout_ms"] == 777
    assert parsed.settings["node"]["heartbeat_interval_ms"] < 2_000


def test_the_production_profile_is_kafkas_defaults() -> None:
    assert _parsed("insync.profile=production\n").settings == {}


def test_comments_and_continued_lines() -> None:
    parsed = _parsed("# a comment\n! another\nbroker.rack=\\\n   east\n")
    assert parsed.rack == "east"


def test_kafkas_thread_counts_are_accepted_and_named() -> None:
    assert _parsed("num.io.threads=8\n").unused == ("num.io.threads",)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("no.such.key=1", "node.properties:5: no.such.key: is not a known setting"),
        (
            "broker.session.timeout.ms=soon",
            "node.properties:5: broker.session.timeout.ms: 'soon' is not a whole number",
        ),
        ("broker.session.timeout.ms=0", "node.properties:5: broker.session.timeout.ms: 0 is not between 1 and"),
        ("min.insync.replicas=0", "node.properties:5: min.insync.replicas: Invalid value 0"),
        ("listeners=9092", "node.properties:5: listeners: '9092' is not of the form NAME://host:port"),
        ("listeners=A://:1,A://:2", "node.properties:5: listeners: two listeners have the same name"),
        ("insync.profile=slow", "node.properties:5: insync.profile: 'slow' is not one of production, fast"),
        ("node.id=4", "node.properties:5: node.id: is set twice, first in line 1"),
    ],
)
def test_a_wrong_line_names_itself_and_the_key(line: str, problem: str) -> None:
    assert _problem(NEEDED + line + "\n").startswith(problem)


def test_a_node_keeps_its_logs_in_one_directory() -> None:
    """Several are refused, not silently reduced to one (ADR 10)."""
    text = NEEDED.replace("log.dirs=/var/lib/insync", "log.dirs=/disk1,/disk2")
    line = text.splitlines().index("log.dirs=/disk1,/disk2") + 1
    assert _problem(text) == (
        f"node.properties:{line}: log.dirs: a node has one log directory, not 2. Start one node per disk."
    )


def test_log_dirs_wins_over_log_dir() -> None:
    assert _parsed("log.dir=/other\n").directory == "/var/lib/insync"


def test_connections_leave_files_for_the_logs() -> None:
    assert assembly.max_connections_for(2**31 - 1, 1_024) == 512
    assert assembly.max_connections_for(100, 1_024) == 100


@pytest.mark.parametrize("key", ["node.id", "process.roles", "controller.quorum.voters", "log.dirs"])
def test_a_missing_required_key_is_named(key: str) -> None:
    text = "".join(line + "\n" for line in NEEDED.splitlines() if not line.startswith(key))
    assert _problem(text) == f"node.properties: {key}: is missing, and required"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("process.roles", "broker,observer"),
        ("process.roles", ""),
        ("controller.quorum.voters", "one:9093"),
        ("controller.quorum.voters", "1@one:9093,1@two:9093"),
        ("controller.quorum.voters", "1@one:99999"),
        ("log.dirs", "/a,/b"),
    ],
)
def test_an_invalid_identity_is_refused(key: str, value: str) -> None:
    text = "".join(line + "\n" for line in NEEDED.splitlines() if not line.startswith(key))
    assert f"{key}: " in _problem(f"{text}{key}={value}\n")


def test_every_key_that_kafka_knows_is_accepted() -> None:
    parsed = _parsed("transaction.max.timeout.ms=1000\nremote.log.reader.threads=2\nauthorizer.class.name=\n")
    assert parsed.unused == ("transaction.max.timeout.ms", "remote.log.reader.threads")
    assert parsed.authorizer is None


def test_the_authorizer_is_kafkas() -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    written = f"authorizer.class.name={name}\nsuper.users=User:admin; User:CN=broker,O=Example;\n"
    assert _parsed(written).authorizer == AuthorizerConfig(super_users=("User:admin", "User:CN=broker,O=Example"))
    allowing = _parsed(f"authorizer.class.name={name}\nallow.everyone.if.no.acl.found=true\n").authorizer
    assert allowing == AuthorizerConfig(allow_if_no_acl=True)
    assert _parsed("super.users=User:admin\n").authorizer is None
    assert "Use org.apache.kafka.metadata" in _problem(f"{NEEDED}authorizer.class.name=kafka.security.AclAuthorizer\n")
    assert "super.users: 'admin' is not type:name" in _problem(f"{NEEDED}super.users=admin\n")
    assert "neither true nor false" in _problem(f"{NEEDED}allow.everyone.if.no.acl.found=maybe\n")


@pytest.mark.parametrize("key", ["create.topic.policy.class.name", "principal.builder.class"])
def test_a_key_that_restricts_access_is_not_ignored(key: str) -> None:
    assert f"{key}: restricts access" in _problem(f"{NEEDED}{key}=x\n")


def test_settings_of_listeners_are_checked_with_the_line_that_is_wrong() -> None:
    listeners = "listeners=PLAINTEXT://:9092,SSL://:9093\n"
    assert _problem(NEEDED + listeners) == (
        "node.properties: ssl.keystore.location: is missing. A listener with TLS needs a certificate and its private "
        "key. (listener SSL, SSL)"
    )
    own = "ssl.client.auth=none\nlistener.name.ssl.ssl.client.auth=maybe\n"
    assert _problem(NEEDED + listeners + own).startswith(
        "node.properties:7: listener.name.ssl.ssl.client.auth: 'maybe' is not one of none, requested, required"
    )


def test_settings_of_sasl_are_checked_with_the_key_that_is_missing() -> None:
    sasl = "listeners=PLAINTEXT://:9092,SASL_PLAINTEXT://:9093\nsasl.enabled.mechanisms=PLAIN\n"
    name = _problem(NEEDED + sasl)
    assert name.startswith(
        "node.properties: listener.name.sasl_plaintext.plain.sasl.jaas.config: is missing. Set it to a PlainLoginModule"
    )
    inter_broker = f"{sasl}security.inter.broker.protocol=SASL_PLAINTEXT\n" + (
        'listener.name.sasl_plaintext.plain.sasl.jaas.config=x.PlainLoginModule required user_a="b";\n'
    )
    assert _problem(NEEDED + inter_broker).startswith(
        "node.properties: sasl.mechanism.inter.broker.protocol: is missing"
    )
    assert _problem(f"{NEEDED}{inter_broker}sasl.mechanism.inter.broker.protocol=PLAIN\n").startswith(
        'node.properties:8: listener.name.sasl_plaintext.plain.sasl.jaas.config: has no username="..."'
    )


def test_a_failed_authentication_is_answered_before_the_connection_is_idle() -> None:
    wrong = "connection.failed.authentication.delay.ms=5000\nconnections.max.idle.ms=5000\n"
    assert _problem(NEEDED + wrong).startswith(
        "node.properties:5: connection.failed.authentication.delay.ms: must be less than connections.max.idle.ms"
    )


def test_settings_that_only_java_needs_are_accepted_and_named() -> None:
    parsed = _parsed(
        "sasl.jaas.config=ignored by brokers\nsasl.login.refresh.window.factor=0.8\nssl.protocol=TLSv1.3\n"
        "listener.name.plaintext.num.network.threads=2\nlistener.name.plaintext.plain.sasl.login.class=a.B\n"
        "listener.name.plaintext.plain.sasl.jaas.config=x\nssl.trustmanager.algorithm=PKIX\n"
        "principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder\n"
    )
    assert sorted(parsed.unused) == [
        "listener.name.plaintext.num.network.threads",
        "listener.name.plaintext.plain.sasl.login.class",
        "principal.builder.class",
        "sasl.jaas.config",
        "sasl.login.refresh.window.factor",
        "ssl.trustmanager.algorithm",
    ]


def test_another_principal_builder_is_refused() -> None:
    assert "principal.builder.class: restricts access" in _problem(f"{NEEDED}principal.builder.class=a.B\n")


def test_passwords_and_keys_are_neither_shown_nor_described() -> None:
    parsed = _parsed(
        "ssl.keystore.password=secret-1\nlistener.name.plaintext.plain.sasl.jaas.config=secret-2\n"
        "ssl.keystore.key=secret-3\nssl.keystore.location=/k\n"
    )
    described = {config.name: config for config in static_configs(parsed, ())}
    assert described["ssl.keystore.location"].value == "/k"
    for name in ("ssl.keystore.password", "listener.name.plaintext.plain.sasl.jaas.config", "ssl.keystore.key"):
        assert (described[name].kind, described[name].value) == (PASSWORD, None)
    assert "secret" not in f"{parsed!r} {described!r}"


def test_static_configs_are_described_with_type_default_and_source() -> None:
    parsed = _parsed(
        "insync.profile=fast\nnum.partitions=1\nleader.imbalance.check.interval.seconds=60\nlog.retention.hours=24\n"
    )
    endpoint = Endpoint(name="PLAINTEXT", host="::1", port=9092)
    described = {
        config.name: (config.kind, config.value, config.default) for config in static_configs(parsed, (endpoint,))
    }
    assert described["advertised.listeners"] == (2, "PLAINTEXT://[::1]:9092", None)
    assert described["broker.id"] == (3, "3", "-1")
    assert described["num.partitions"] == (3, "1", "1")
    assert described["broker.session.timeout.ms"] == (3, "5000", "9000")
    assert described["leader.imbalance.check.interval.seconds"] == (5, "60", "300")
    assert described["log.retention.hours"] == (3, "24", "168")
    assert described["auto.create.topics.enable"] == (1, "true", "true")
    assert described["group.coordinator.rebalance.protocols"] == (7, "classic", "classic")


def test_a_secured_configuration_of_apache_kafka_is_accepted() -> None:
    """As its documentation and common images write it: one listener for clients and brokers, one for controllers."""
    login = 'username="broker" password="secret"'
    modules = "org.apache.kafka.common.security"
    text = f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=SASL_SSL://:9092,CONTROLLER://:9093
advertised.listeners=SASL_SSL://localhost:9092
listener.security.protocol.map=CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
inter.broker.listener.name=SASL_SSL
controller.listener.names=CONTROLLER
early.start.listeners=CONTROLLER
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
sasl.mechanism.controller.protocol=PLAIN
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required \\
  {login};
listener.name.sasl_ssl.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required \\
  {login} \\
  user_broker="secret" \\
  user_alice="alice-secret";
listener.name.controller.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required {login} user_broker="secret";
connections.max.reauth.ms=3600000
ssl.keystore.location=/var/private/ssl/kafka.server.keystore.p12
ssl.keystore.type=PKCS12
ssl.keystore.password=changeit
ssl.key.password=changeit
ssl.truststore.location=/var/private/ssl/kafka.server.truststore.p12
ssl.truststore.type=PKCS12
ssl.truststore.password=changeit
ssl.client.auth=required
ssl.enabled.protocols=TLSv1.3,TLSv1.2
ssl.protocol=TLSv1.3
ssl.endpoint.identification.algorithm=
ssl.secure.random.implementation=SHA1PRNG
ssl.principal.mapping.rules=RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:broker;User:admin
allow.everyone.if.no.acl.found=false
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/tmp/kraft-combined-logs
offsets.topic.replication.factor=1
"""
    parsed = properties.parse(text, "server.properties")
    assert [(bound.name, bound.security.protocol.name, bound.serves_nodes) for bound in parsed.listeners.bound] == [
        ("SASL_SSL", "SASL_SSL", True),
        ("CONTROLLER", "SASL_SSL", True),
    ]
    assert "secret" not in repr(parsed)
    assert "changeit" not in repr(parsed)


STOCK = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
log.dirs=/tmp/kraft-combined-logs
"""


def test_the_only_controller_of_a_file_for_kafka_4_is_the_node_itself() -> None:
    parsed = properties.parse(STOCK, "server.properties")
    assert parsed.voters == {1: ("localhost", 9093)}
    assert "controller.quorum.bootstrap.servers" not in parsed.unused


REST_OF_STOCK = """\
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_the_server_properties_of_kafka_4_1_are_accepted() -> None:
    parsed = properties.parse(STOCK + REST_OF_STOCK, "server.properties")
    assert set(parsed.unused) == {
        "num.network.threads",
        "num.io.threads",
        "socket.send.buffer.bytes",
        "socket.receive.buffer.bytes",
        "num.recovery.threads.per.data.dir",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    }
    assert parsed.settings["groups"]["offsets_topic_replication_factor"] == 1


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("num.partition", "num.partitions"),
        ("log.retention.hour", "log.retention.hours"),
        ("adverticed.listeners", "advertised.listeners"),
        ("log.segment.byte", "log.segment.bytes"),
        ("share.coordinator.state.topic.minisr", "share.coordinator.state.topic.min.isr"),
        ("ssl.keystore.locaton", "ssl.keystore.location"),
    ],
)
def test_a_misspelt_setting_is_refused_with_the_right_one(wrong: str, right: str) -> None:
    assert f"{wrong}: is not a known setting. Did you mean {right}?" in _problem(f"{STOCK}{wrong}=1\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("=localhost:9093", "=localhost:9093,other:9093"),
        ("=localhost:9093", "=other:9094"),
        ("=localhost:9093", "="),
        ("=broker,controller", "=broker"),
    ],
)
def test_controllers_without_ids_are_refused(before: str, after: str) -> None:
    text = STOCK.replace(before, after, 1)
    if after == "=broker":
        text = text.replace("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", "listeners=PLAINTEXT://:9092")
        text = text.replace("localhost:9092,CONTROLLER://localhost:9093", "localhost:9092")
    assert "Set controller.quorum.voters=ID@HOST:PORT" in _problem(text)


def test_settings_of_tokens_may_name_the_mechanism() -> None:
    """As in Kafka's documentation: they win over those without it."""
    prefix = "listener.name.sasl_plaintext.oauthbearer.sasl"
    parsed = _parsed(
        "listeners=SASL_PLAINTEXT://:9094,PLAINTEXT://:9092\nsasl.enabled.mechanisms=OAUTHBEARER\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        f"{prefix}.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
        f"{prefix}.oauthbearer.jwks.endpoint.url=https://idp/keys\n"
        f"{prefix}.oauthbearer.expected.audience=own\nsasl.oauthbearer.expected.audience=common\n"
    )
    (bound,) = (bound for bound in parsed.listeners.bound if bound.name == "SASL_PLAINTEXT")
    oauth = SaslSettings.of(bound.security.settings).oauth
    assert oauth is not None
    assert (oauth.jwks_url, oauth.audiences) == ("https://idp/keys", ("own",))
    assert f"{prefix}.oauthbearer.jwks.endpoint.url" not in parsed.unused
    unknown = "listener.name.plaintext.plain.sasl.oauthbearer.jwks.endpoint=x\n"
    assert "is not a known setting" in _problem(NEEDED + unknown)
