"""Why Spark did not start, in a sentence; and masters that cannot be one, before anything is started."""

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
    ("words", "told"),
    [
        (SUBMIT, "Master must either be yarn or start with spark"),
        (PY4J, "Cannot assign requested address: Service 'sparkDriver' failed"),
        (ALONE, "All masters are unresponsive!"),
        (JVM, "Unrecognized option: -foo. Error: Could not create the Java Virtual Machine."),
        ("", "no reason given"),
    ],
)
def test_why_spark_did_not_start_is_told_without_traces(words: str, told: str) -> None:
    assert explain_start_failure(words) == told


@pytest.mark.parametrize("master", ["foo", "", "local[foo]", "local[", "spark://host", "http://host:7077", "k8s://"])
def test_what_cannot_be_a_master_is_refused_before_spark_starts(master: str) -> None:
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
def test_every_kind_of_master_is_let_through(master: str | None) -> None:
    session.check_master(master)


def test_a_jvm_that_does_not_start_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it wrote to standard error; the exception itself says only that it is gone."""

    def broken(*_: object, **__: object) -> None:
        os.write(2, SUBMIT.encode())
        raise SparkStartError("Spark did not start: [JAVA_GATEWAY_EXITED] Java gateway process exited")

    monkeypatch.setattr(session, "session", broken)
    with pytest.raises(SparkStartError) as told:
        session.open_quiet_session()
    assert str(told.value) == "Spark did not start: Master must either be yarn or start with spark"


def test_ctrl_c_waits_until_the_jvm_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes up for nobody would stay."""
    steps: list[str] = []

    def launch(conf: object) -> None:
        steps.append("launching")
        signal.raise_signal(signal.SIGINT)
        steps.append("launched")

    monkeypatch.setattr(session, "runs", lambda: False)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", launch)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        session._launch({"spark.master": "local"})
    assert steps == ["launching", "launched"]
    assert signal.getsignal(signal.SIGINT) is before
