"""Settings with the names of Java's clients: parsing, errors, and secrets that are never shown."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync import java_properties
from insync.client import setting_names
from insync.client.errors import SettingError
from insync.client.security import PLAINTEXT, Security
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings, log_ineffective_settings
from insync.security import jaas
from tests.tls_files import TLS

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
def test_credentials_are_parsed_as_in_java(text: str, user: str, password: str) -> None:
    _, options = jaas.parse(text)
    assert (options["username"], options["password"]) == (user, password)


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_errors_in_credentials_do_not_show_them(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=r"sasl\.jaas\.config") as caught:
        Security.of({**LOGIN, "sasl.jaas.config": text})
    assert message in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@given(st.text(), st.text())
def test_any_password_can_be_quoted(user: str, password: str) -> None:
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password)]
    module, options = jaas.parse(f'{PLAIN} required username="{quoted[0]}" password="{quoted[1]}";')
    assert (module, options) == (PLAIN, {"username": user, "password": password})


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for candidate in (text, f"{PLAIN} required {text}", f'{PLAIN} required username="{text};'):
        try:
            module, options = jaas.parse(candidate)
        except jaas.JaasError:
            continue
        assert module
        assert all(options)


@given(st.text())
def test_any_text_is_a_valid_properties_file(text: str) -> None:
    assert isinstance(java_properties.parse(text), dict)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_escaped_properties_round_trip(values: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        """As Java writes them, in units of UTF-16."""
        units = text.encode("utf-16-be")
        return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))

    text = "".join(f"{escaped(name)}={escaped(value)}\n" for name, value in values.items())
    assert java_properties.parse(text) == values


def test_librdkafkas_names_are_accepted() -> None:
    given = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "alice"}
    credentials = Security.of({**given, "sasl.password": SECRET}).sasl
    assert credentials is not None
    assert (credentials.mechanism, credentials.username, credentials.password) == ("PLAIN", "alice", SECRET)
    with pytest.raises(SettingError, match=r"sasl\.password"):
        Security.of(given)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "SCRAM-SHA-1", ""])
def test_an_unsupported_mechanism_is_refused_with_the_supported_ones(mechanism: str) -> None:
    with pytest.raises(SettingError, match=r"sasl\.mechanism.*PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        Security.of({**LOGIN, "sasl.mechanism": mechanism})


# --- TLS -------------------------------------------------------------------------------------------------------------


def test_the_default_protocol_is_plaintext() -> None:
    assert Security.of({}) == Security.of({"security.protocol": "plaintext", "sasl.mechanism": "GSSAPI"}) == PLAINTEXT


@pytest.mark.parametrize(
    ("setting", "value", "message"),
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
def test_an_invalid_value_is_refused_by_name(setting: str, value: str, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        ClientSettings.of({"security.protocol": "SSL", setting: value})
    assert caught.value.setting == setting
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"ssl.truststore.location": "/nowhere/ca.pem"}, "'ssl.truststore.location'.*No such file"),
        ({"ssl.ca.location": str(TLS / "README.md")}, "'ssl.ca.location'.*not a PEM file.*keytool"),
        ({"ssl.truststore.certificates": "not PEM"}, "'ssl.truststore.certificates'.*PEM"),
        ({"ssl.keystore.location": str(TLS / "ca.pem")}, "'ssl.keystore.location'.*private key"),
        (
            {"ssl.keystore.location": str(TLS / "client-locked.pem"), "ssl.key.password": SECRET},
            r"'ssl.keystore.location'.*ssl\.key\.password",
        ),
        ({"ssl.keystore.location": str(TLS / "client-locked.pem")}, r"'ssl.keystore.location'.*ssl\.key\.password"),
    ],
)
def test_an_unusable_file_is_named(settings: dict[str, str], named: str) -> None:
    tls = Security.of({"security.protocol": "SSL", **settings}).tls
    assert tls is not None
    with pytest.raises(SettingError, match=named):
        tls.make_context()


@pytest.mark.parametrize(
    "identity",
    [
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(TLS / "client.pem")},
        {"ssl.keystore.location": str(TLS / "client-locked.pem"), "ssl.key.password": "open sesame"},
        {"ssl.certificate.location": str(TLS / "client.pem"), "ssl.key.location": str(TLS / "client.pem")},
    ],
)
def test_a_client_certificate_can_be_given_in_several_ways(identity: dict[str, str]) -> None:
    tls = Security.of({"security.protocol": "SSL", "ssl.ca.location": str(TLS / "ca.pem"), **identity}).tls
    assert tls is not None
    assert tls.make_context().check_hostname


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_settings_can_be_pickled_and_show_no_secret() -> None:
    key = (TLS / "client.pem").read_text()
    settings = ClientSettings.of(
        {
            **LOGIN,
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": key,
            "ssl.key.password": SECRET,
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(settings) == hash(pickle.loads(pickle.dumps(settings)))
    assert SECRET not in repr(settings)
    assert "PRIVATE KEY" not in repr(settings)
    assert settings.security.tls is not None
    assert not settings.security.tls.check_name


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
def test_secrets_are_recognized_by_name_or_content(name: str, value: str) -> None:
    assert SECRET not in setting_names.shown(name, value)
    assert setting_names.shown("client.id", "me") == "'me'"


# --- the others ------------------------------------------------------------------------------------------------------


def test_without_settings_the_defaults_apply() -> None:
    assert ClientSettings.of({}) == ClientSettings.of({"linger.ms": "5", "request.timeout.ms": ""}) == DEFAULT_SETTINGS


def test_durations_and_sizes_are_parsed() -> None:
    settings = ClientSettings.of(
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
    assert (settings.client_id, settings.request_timeout_s, settings.api_timeout_s, settings.connect_timeout_s) == (
        "me",
        1.5,
        2.5,
        0.5,
    )
    assert (settings.retry_backoff_s, settings.retry_backoff_max_s) == (1.0, 1.0)
    assert (settings.min_bytes, settings.max_wait_ms, settings.max_bytes, settings.partition_bytes) == (7, 8, 9, 10)


def test_an_unknown_name_is_a_warning_and_a_known_one_without_effect_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        names = ["securty.protocol", "linger.ms", "sasl.login.refresh.window.factor", "client.id", "zzz"]
        log_ineffective_settings(logging.getLogger("insync.spark"), names, used=setting_names.COMMON, prefix="kafka.")
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    others = [record.getMessage() for record in caplog.records if record.levelno < logging.WARNING]
    assert len(warnings) == 2
    assert warnings[0] == (
        "Unknown client setting 'kafka.securty.protocol' ignored. Did you mean 'kafka.security.protocol'?"
    )
    assert warnings[1] == "Unknown client setting 'kafka.zzz' ignored."
    assert others == ["Client settings without effect: kafka.linger.ms, kafka.sasl.login.refresh.window.factor"]


def test_a_properties_file_is_parsed_as_in_java() -> None:
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
