"""Settings with the names of Java's clients: what is read from them, what is refused, and what is never shown."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync import java_properties
from insync.client import jaas, setting_names
from insync.client.errors import SettingError
from insync.client.security import PLAINTEXT, Security
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings, log_ineffective_settings
from secured_front import TLS

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "opensesame"
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM} required username="alice" password="{SECRET}";',
}


# --- credentials -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "user", "password"),
    [
        (f'{PLAIN} required username="alice" password="secret";', "alice", "secret"),
        (f"{PLAIN} required username='alice' password='it\"s';", "alice", 'it"s'),
        (f'{PLAIN} required username=alice password="a\\"b\\\\c;d=e";', "alice", 'a"b\\c;d=e'),
        (f'  {SCRAM}\n  REQUIRED\n  username = "alice"\n  password="; // \'";\n', "alice", "; // '"),
        (f'{PLAIN} required serviceName="kafka" password="\\101\\n" username="ä";', "ä", "A\n"),
    ],
)
def test_credentials_are_read_as_java_reads_them(text: str, user: str, password: str) -> None:
    _, options = jaas.parse(text)
    assert (options["username"], options["password"]) == (user, password)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "login module"),
        (f"{PLAIN} username='alice' password='{SECRET}';", "login module"),
        (f'{PLAIN} required username="alice" password="{SECRET}"', "';'"),
        (f'{PLAIN} required username="alice" password="{SECRET};', "';'"),
        (f'{PLAIN} required username="alice" password;', "name="),
        (f'{PLAIN} required username="alice" password="{SECRET}"; {SCRAM} required;', "one login module"),
        (f'{PLAIN} required password="{SECRET}";', "no username"),
        (f'{PLAIN} required username="alice";', "no password"),
        (f'{SCRAM} required username="alice" password="{SECRET}" tokenauth="true";', "tokenauth"),
        (f'{PLAIN} required username="alice" password="{SECRET}\\0";', "NUL"),
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "PlainLoginModule"),
    ],
)
def test_bad_credentials_are_named_and_not_shown(text: str, told: str) -> None:
    with pytest.raises(SettingError, match=r"sasl\.jaas\.config") as caught:
        Security.of({**LOGIN, "sasl.jaas.config": text})
    assert told in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@given(st.text(), st.text())
def test_any_password_can_be_quoted(user: str, password: str) -> None:
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password)]
    module, options = jaas.parse(f'{PLAIN} required username="{quoted[0]}" password="{quoted[1]}";')
    assert (module, options) == (PLAIN, {"username": user, "password": password})


@given(st.text())
def test_any_text_is_credentials_or_an_error(text: str) -> None:
    for tried in (text, f"{PLAIN} required {text}", f'{PLAIN} required username="{text};'):
        try:
            jaas.parse(tried)
        except jaas.JaasError:
            continue


@given(st.text())
def test_any_text_is_a_properties_file(text: str) -> None:
    assert isinstance(java_properties.parse(text), dict)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_escaped_comes_back(values: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        """As Java writes them: in units of UTF-16."""
        units = text.encode("utf-16-be")
        return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))

    text = "".join(f"{escaped(name)}={escaped(value)}\n" for name, value in values.items())
    assert java_properties.parse(text) == values


def test_librdkafkas_names_work_too() -> None:
    given = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "alice"}
    found = Security.of({**given, "sasl.password": SECRET}).sasl
    assert found is not None
    assert (found.mechanism, found.username, found.password) == ("PLAIN", "alice", SECRET)
    with pytest.raises(SettingError, match=r"sasl\.password"):
        Security.of(given)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "SCRAM-SHA-1", ""])
def test_a_mechanism_that_is_not_supported_is_refused_with_those_that_are(mechanism: str) -> None:
    with pytest.raises(SettingError, match=r"sasl\.mechanism.*PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        Security.of({**LOGIN, "sasl.mechanism": mechanism})


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_without_a_protocol_nothing_is_secured() -> None:
    assert Security.of({}) == Security.of({"security.protocol": "plaintext", "sasl.mechanism": "GSSAPI"}) == PLAINTEXT


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("security.protocol", "TLS", "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("ssl.endpoint.identification.algorithm", "ldaps", "https"),
        ("ssl.truststore.type", "JKS", "keytool -list -rfc"),
        ("ssl.truststore.location", "/x/trust.jks", "keytool -list -rfc -keystore /x/trust.jks"),
        ("ssl.keystore.location", "/x/me.p12", "openssl pkcs12"),
        ("ssl.keystore.key", "-----BEGIN", "ssl.keystore.certificate.chain"),
        ("ssl.key.location", "/x/me.key", "ssl.certificate.location"),
        ("fetch.max.wait.ms", "soon", "a whole number"),
        ("request.timeout.ms", "0", "at least 1"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(setting: str, value: str, told: str) -> None:
    with pytest.raises(SettingError) as caught:
        ClientSettings.of({"security.protocol": "SSL", setting: value})
    assert caught.value.setting == setting
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"ssl.truststore.location": "/nowhere/ca.pem"}, "'ssl.truststore.location'.*No such file"),
        ({"ssl.ca.location": str(TLS / "README.md")}, "'ssl.ca.location'.*no PEM file.*keytool"),
        ({"ssl.truststore.certificates": "not PEM"}, "'ssl.truststore.certificates'.*PEM"),
        ({"ssl.keystore.location": str(TLS / "ca.pem")}, "'ssl.keystore.location'.*private key"),
        (
            {"ssl.keystore.location": str(TLS / "client-locked.pem"), "ssl.key.password": SECRET},
            r"'ssl.keystore.location'.*ssl\.key\.password",
        ),
        ({"ssl.keystore.location": str(TLS / "client-locked.pem")}, r"'ssl.keystore.location'.*ssl\.key\.password"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_when_it_is_read(settings: dict[str, str], named: str) -> None:
    tls = Security.of({"security.protocol": "SSL", **settings}).tls
    assert tls is not None
    with pytest.raises(SettingError, match=named):
        tls.context()


@pytest.mark.parametrize(
    "identity",
    [
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(TLS / "client.pem")},
        {"ssl.keystore.location": str(TLS / "client-locked.pem"), "ssl.key.password": "open sesame"},
        {"ssl.certificate.location": str(TLS / "client.pem"), "ssl.key.location": str(TLS / "client.pem")},
    ],
)
def test_an_identity_can_be_named_in_many_ways(identity: dict[str, str]) -> None:
    tls = Security.of({"security.protocol": "SSL", "ssl.ca.location": str(TLS / "ca.pem"), **identity}).tls
    assert tls is not None
    assert tls.context().check_hostname


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_settings_travel_and_show_no_secret() -> None:
    key = (TLS / "client.pem").read_text()
    made = ClientSettings.of(
        {
            **LOGIN,
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": key,
            "ssl.key.password": SECRET,
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))
    assert SECRET not in repr(made)
    assert "PRIVATE KEY" not in repr(made)
    assert made.security.tls is not None
    assert not made.security.tls.check_name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.jaas.config", SECRET),
        ("ssl.key.password", SECRET),
        ("ssl.keystore.key", SECRET),
        ("ssl.key.pem", SECRET),
        ("sasl.oauthbearer.client.credentials.client.secret", SECRET),
        ("sasl.jass.confg", f'{PLAIN} required username="u" password="{SECRET}";'),
    ],
)
def test_secrets_are_known_by_their_names_or_their_looks(name: str, value: str) -> None:
    assert SECRET not in setting_names.shown(name, value)
    assert setting_names.shown("client.id", "me") == "'me'"


# --- the others ------------------------------------------------------------------------------------------------------


def test_what_is_not_set_stays_as_it_is() -> None:
    assert ClientSettings.of({}) == ClientSettings.of({"linger.ms": "5", "request.timeout.ms": ""}) == DEFAULT_SETTINGS


def test_times_and_sizes_are_read() -> None:
    made = ClientSettings.of(
        {
            "client.id": "me",
            "request.timeout.ms": "1500",
            "default.api.timeout.ms": "2500",
            "socket.connection.setup.timeout.ms": "500",
            "retry.backoff.ms": "1000",
            "fetch.min.bytes": "7",
            "fetch.max.wait.ms": "8",
            "fetch.max.bytes": "9",
            "max.partition.fetch.bytes": "10",
        }
    )
    assert (made.client_id, made.request_timeout_s, made.api_timeout_s, made.connect_timeout_s) == ("me", 1.5, 2.5, 0.5)
    assert (made.retry_backoff_s, made.retry_backoff_max_s) == (1.0, 1.0)
    assert (made.min_bytes, made.max_wait_ms, made.max_bytes, made.partition_bytes) == (7, 8, 9, 10)


def test_a_name_that_nobody_has_is_a_warning_and_others_without_effect_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        names = ["securty.protocol", "linger.ms", "sasl.login.refresh.window.factor", "client.id", "zzz"]
        log_ineffective_settings(logging.getLogger("insync.spark"), names, used=setting_names.COMMON, prefix="kafka.")
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    others = [record.getMessage() for record in caplog.records if record.levelno < logging.WARNING]
    assert len(warnings) == 2
    assert "'kafka.securty.protocol'" in warnings[0]
    assert "was 'kafka.security.protocol' meant?" in warnings[0]
    assert "meant" not in warnings[1]
    assert others == ["without effect: kafka.linger.ms, kafka.sasl.login.refresh.window.factor"]


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    text = (
        "# a comment\n  ! another\n\nsecurity.protocol=SASL_SSL\r\nsasl.mechanism : PLAIN\n"
        "ssl.key.password open sesame\n"
        'sasl.jaas.config=Module required \\\n    username="a" \\\n    password="b\\\\";\n'
        "a\\ b\\=c = \\u00e4\\t \\\\\nempty\nclient.id=1\nclient.id=2 \n"
    )
    assert java_properties.parse(text) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.key.password": "open sesame",
        "sasl.jaas.config": 'Module required username="a" password="b\\";',
        "a b=c": "ä\t \\",
        "empty": "",
        "client.id": "2 ",
    }
