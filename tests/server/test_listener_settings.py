"""Listeners from Kafka's settings, and what Kafka refuses."""

from __future__ import annotations

import pytest

from insync.security.errors import SecuritySettingError
from insync.server.listeners import ListenerSettings, SecurityProtocol, read_listeners

BOTH, BROKER, CONTROLLER = ("broker", "controller"), ("broker",), ("controller",)
PLAINTEXT, SSL, SASL_SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL, SecurityProtocol.SASL_SSL


def settings(text: str, roles: tuple[str, ...] = BOTH) -> ListenerSettings:
    return read_listeners(dict(line.split("=", 1) for line in text.split()), roles)


def problem(text: str, roles: tuple[str, ...] = BOTH) -> str:
    with pytest.raises(SecuritySettingError) as caught:
        settings(text, roles)
    return str(caught.value)


def test_a_node_without_settings_has_one_plaintext_listener_for_everything() -> None:
    listeners = settings("")
    (listener,) = listeners.bound
    assert (listener.name, listener.address.host, listener.address.port) == ("PLAINTEXT", "", 9092)
    assert listener.security.protocol is PLAINTEXT
    assert listener.serves_nodes
    assert listeners.inter_broker.name == listeners.controller.name == "PLAINTEXT"
    assert not listeners.has_separate_controller_listener


def test_names_of_protocols_stand_for_themselves() -> None:
    listeners = settings("listeners=PLAINTEXT://:1,ssl://:2,SASL_SSL://:3")
    assert [listener.security.protocol for listener in listeners.bound] == [PLAINTEXT, SSL, SASL_SSL]
    assert [listener.serves_nodes for listener in listeners.bound] == [True, False, False]


def test_a_map_gives_other_names_a_protocol() -> None:
    listeners = settings(
        "listeners=INTERNAL://:1,EXTERNAL://:2,CONTROLLER://:3 controller.listener.names=CONTROLLER "
        "listener.security.protocol.map=internal:SSL,EXTERNAL:SASL_SSL,CONTROLLER:PLAINTEXT "
        "inter.broker.listener.name=INTERNAL"
    )
    assert [(listener.name, listener.security.protocol) for listener in listeners.bound] == [
        ("INTERNAL", SSL),
        ("EXTERNAL", SASL_SSL),
        ("CONTROLLER", PLAINTEXT),
    ]
    assert [listener.serves_nodes for listener in listeners.bound] == [True, False, True]
    assert [address.name for address in listeners.advertised] == ["INTERNAL", "EXTERNAL"]
    assert (listeners.inter_broker.name, listeners.controller.name) == ("INTERNAL", "CONTROLLER")


def test_controllers_are_reached_by_the_first_of_their_listeners() -> None:
    """As seen from a broker, which does not open them itself."""
    listeners = settings("listeners=PLAINTEXT://:1 controller.listener.names=FIRST,SECOND", BROKER)
    assert (listeners.controller.name, listeners.controller.protocol) == ("FIRST", PLAINTEXT)


def test_the_inter_broker_listener_may_be_named_by_its_protocol() -> None:
    listeners = settings("listeners=PLAINTEXT://:1,SSL://:2 security.inter.broker.protocol=SSL")
    assert (listeners.inter_broker.name, listeners.inter_broker.protocol) == ("SSL", SSL)


def test_an_override_counts_for_its_listener_only() -> None:
    listeners = settings(
        "listeners=PLAINTEXT://:1,SSL://:2 ssl.protocol=TLSv1.3 ssl.client.auth=required "
        "listener.name.ssl.ssl.client.auth=none listener.name.ssl.scram-sha-256.sasl.jaas.config=x"
    )
    plaintext, ssl = (listener.security.settings for listener in listeners.bound)
    assert plaintext == {"ssl.protocol": "TLSv1.3", "ssl.client.auth": "required"}
    assert ssl == {"ssl.protocol": "TLSv1.3", "ssl.client.auth": "none", "scram-sha-256.sasl.jaas.config": "x"}


def test_a_general_demand_for_certificates_does_not_count_for_sasl() -> None:
    """As in Kafka: clients of SASL_SSL authenticate by SASL unless the listener's own setting asks for both."""
    general = "listeners=PLAINTEXT://:1,SASL_SSL://:2 ssl.client.auth=required"
    assert "ssl.client.auth" not in settings(general).bound[1].security.settings
    own = settings(f"{general} listener.name.sasl_ssl.ssl.client.auth=required")
    assert own.bound[1].security.settings["ssl.client.auth"] == "required"


def test_settings_are_not_shown() -> None:
    assert "secret" not in repr(settings("ssl.key.password=secret"))


def test_one_port_serves_an_ipv4_and_an_ipv6_listener() -> None:
    listeners = settings("listeners=PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092")
    assert [listener.address.host for listener in listeners.bound] == ["127.0.0.1", "::1"]


CONTROLLERS = "controller.listener.names=CONTROLLER"


@pytest.mark.parametrize(
    ("text", "roles", "message"),
    [
        ("listeners=A://:1", BOTH, "listeners: the listener A has no security protocol. Add A:SSL"),
        (
            "listeners=PLAINTEXT://:1 listener.security.protocol.map=A:SSL",
            BOTH,
            "listeners: the listener PLAINTEXT has no security protocol",
        ),
        ("listener.security.protocol.map=A", BOTH, "listener.security.protocol.map: 'A' is not of the form"),
        ("listener.security.protocol.map=A:TLS", BOTH, "listener.security.protocol.map: 'TLS' is not one of PLAINTEXT"),
        ("listener.security.protocol.map=A:SSL,a:SSL", BOTH, "listener.security.protocol.map: the listener A is named"),
        ("listeners=PLAINTEXT://:1,SSL://:1", BOTH, "listeners: PLAINTEXT and SSL have the same port 1"),
        (
            "inter.broker.listener.name=PLAINTEXT security.inter.broker.protocol=PLAINTEXT",
            BOTH,
            "inter.broker.listener.name: and security.inter.broker.protocol are both set",
        ),
        ("security.inter.broker.protocol=TLS", BOTH, "security.inter.broker.protocol: 'TLS' is not one of"),
        (
            "listeners=SSL://:1",
            BOTH,
            "security.inter.broker.protocol: is not set, so brokers would use the listener PLAINTEXT, but PLAINTEXT is "
            "not among the advertised listeners SSL. Set inter.broker.listener.name to one of them.",
        ),
        ("inter.broker.listener.name=B", BOTH, "inter.broker.listener.name: B is not among the advertised listeners"),
        (f"listeners=PLAINTEXT://:1 {CONTROLLERS}", BOTH, "controller.listener.names: the listener CONTROLLER is not"),
        (
            f"listeners=PLAINTEXT://:1,CONTROLLER://:2 {CONTROLLERS}",
            CONTROLLER,
            "listeners: the listener PLAINTEXT is not in controller.listener.names, and this node is a controller only",
        ),
        (f"listeners=PLAINTEXT://:1,CONTROLLER://:2 {CONTROLLERS}", BROKER, "listeners: CONTROLLER is in controller."),
        (
            f"listeners=PLAINTEXT://:1 {CONTROLLERS} listener.security.protocol.map=PLAINTEXT:PLAINTEXT",
            BROKER,
            "controller.listener.names: the listener CONTROLLER has no security protocol",
        ),
        (
            f"listeners=PLAINTEXT://:1,SSL://:2 {CONTROLLERS}",
            BROKER,
            "controller.listener.names: the listener CONTROLLER has no security protocol",
        ),
        (
            f"listeners=PLAINTEXT://:1 advertised.listeners=PLAINTEXT://h:1,CONTROLLER://h:2 {CONTROLLERS}",
            BROKER,
            "advertised.listeners: the listener CONTROLLER is not in listeners, and brokers do not advertise",
        ),
        (
            "advertised.listeners=SSL://h:1",
            BROKER,
            "advertised.listeners: the listener SSL is not in listeners. Add it there, or remove it here.",
        ),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:1", BROKER, "advertised.listeners: 0.0.0.0 is no address"),
        (f"listeners=CONTROLLER://:1 {CONTROLLERS}", BOTH, "listeners: all listeners are in controller.listener.names"),
        (
            f"listeners=PLAINTEXT://:1,CONTROLLER://:2 {CONTROLLERS} inter.broker.listener.name=CONTROLLER",
            BOTH,
            "inter.broker.listener.name: CONTROLLER is in controller.listener.names",
        ),
        ("listener.name.PLAINTEXT.ssl.protocol=TLSv1.3", BOTH, "listener.name.PLAINTEXT.ssl.protocol: names no"),
        ("listener.name.extrenal.ssl.protocol=TLSv1.3", BOTH, "listener.name.extrenal.ssl.protocol: names no listener"),
        ("listener.name.ssl.ssl.protocl=TLSv1.3", BOTH, "listener.name.ssl.ssl.protocl: is not a known setting"),
        ("listener.name.ssl.plain.ssl.protocol=x", BOTH, "listener.name.ssl.plain.ssl.protocol: is not a known"),
    ],
)
def test_a_contradiction_is_refused_with_the_setting_and_what_to_do(
    text: str, roles: tuple[str, ...], message: str
) -> None:
    assert problem(text, roles).startswith(message)
