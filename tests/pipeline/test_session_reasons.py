"""Why Spark did not start, in one sentence; and which masters are accepted."""

from __future__ import annotations

import os
import signal

import pytest
from pyspark import SparkContext

from insync.pipeline import session
from insync.pipeline.spark_errors import SparkStartError, explain_start_failure

SUBMIT = """WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/16 09:47:42 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
"""
PY4J = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.net.BindException: Cannot assign requested address: Service 'sparkDriver' failed
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)
Caused by: java.net.BindException: Cannot assign
"""
ALONE = """26/11/16 09:48:42 WARN AppClient: Failed to connect to master
java.io.IOException: Failed to connect to /127.0.0.1:1
\tat io.netty.Something
26/11/16 09:49:42 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive!
java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
"""
JVM = "Unrecognized option: -foo\nError: Could not create the Java Virtual Machine.\nError: A fatal exception.\n"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (SUBMIT, "Master must either be yarn or start with spark"),
        (PY4J, "Cannot assign requested address: Service 'sparkDriver' failed"),
        (ALONE, "All masters are unresponsive!"),
        (JVM, "Unrecognized option: -foo. Error: Could not create the Java Virtual Machine."),
        ("", "no reason given"),
    ],
)
def test_the_reason_for_a_failed_start_is_found_in_the_output(output: str, reason: str) -> None:
    assert explain_start_failure(output) == reason


@pytest.mark.parametrize("master", ["foo", "", "local[foo]", "local[", "spark://host", "http://host:7077", "k8s://"])
def test_an_invalid_master_is_rejected_before_spark_starts(master: str) -> None:
    with pytest.raises(
        SparkStartError, match=r"--master .*: Spark's masters are local, .* spark://HOST:PORT, yarn or k8s://"
    ):
        session.open_session(master)


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[4]", "local[*]", "local[*, 3]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host:6443"),
        *("spark://host:7077", "spark://one:7077,two:7077", "spark://[::1]:7077", "mesos://host:5050", None),
    ],
)
def test_every_kind_of_master_is_accepted(master: str | None) -> None:
    assert session.is_valid_master(master)


def test_the_jvms_output_explains_why_it_did_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception itself says only that the process is gone."""

    def fail(*_: object, **__: object) -> None:
        os.write(2, SUBMIT.encode())
        raise SparkStartError("Spark did not start: [JAVA_GATEWAY_EXITED] Java gateway process exited")

    monkeypatch.setattr(session, "open_session", fail)
    with pytest.raises(SparkStartError) as caught:
        session.open_quiet_session()
    assert str(caught.value) == "Spark did not start: Master must either be yarn or start with spark"


def test_ctrl_c_is_deferred_until_the_jvm_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM whose driver is gone would stay."""
    steps: list[str] = []

    def launch(conf: object) -> None:
        steps.append("launching")
        signal.raise_signal(signal.SIGINT)
        steps.append("launched")

    monkeypatch.setattr(session, "has_session", lambda: False)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", launch)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        session._launch({"spark.master": "local"})
    assert steps == ["launching", "launched"]
    assert signal.getsignal(signal.SIGINT) is before
