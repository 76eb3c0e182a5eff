"""Runs Apache Kafka's command-line tools and our Java programs, one JVM after the other."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_kafka
from tests.polling import wait_until

TIMEOUT_S = 120.0
"""Far more than any run takes: only a defect waits this long."""

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
"""Options for JVMs that end before a better compiler or collector would pay."""
CLASS_ARCHIVE = apache_kafka.LIBS.parent / "tools.jsa"
"""A CDS archive of loaded classes, written by one run for all others: loading classes is half of a tool's run time."""

_TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-acls": f"{_TOOLS}.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-groups": f"{_TOOLS}.GroupsCommand",
    "kafka-reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-features": f"{_TOOLS}.FeatureCommand",
    "kafka-cluster": f"{_TOOLS}.ClusterTool",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "kafka-e2e-latency": f"{_TOOLS}.EndToEndLatency",
    "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
    "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "kafka-streams-application-reset": f"{_TOOLS}.StreamsResetter",
    "kafka-replica-verification": f"{_TOOLS}.ReplicaVerificationTool",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
}
"""By the name of the script in Kafka's bin directory."""


@dataclass(frozen=True, slots=True)
class Completed:
    exit_code: int
    stdout: str
    stderr: str


def command(main: str, *arguments: str) -> list[str]:
    archive = (f"-XX:SharedArchiveFile={CLASS_ARCHIVE}",) if CLASS_ARCHIVE.exists() else ()
    return apache_kafka.java(main, *arguments, options=(*SHORT_LIVED, *archive))


def write_class_archive(bootstrap: str) -> None:
    """Run a tool that loads most of the classes. If this fails, the other runs only take longer."""
    if not CLASS_ARCHIVE.exists():
        options = (*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={CLASS_ARCHIVE}")
        arguments = ("--bootstrap-server", bootstrap, "--describe", "--entity-type", "topics")
        subprocess.run(
            apache_kafka.java(CLASSES["kafka-configs"], *arguments, options=options),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )


def run(main: str, *arguments: str, stdin: str = "") -> Completed:
    process = subprocess.run(
        command(main, *arguments), input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return Completed(process.returncode, process.stdout, process.stderr)


def run_program(name: str, *arguments: str) -> dict[str, str]:
    """Run one of our Java programs to its end, and return the values that it printed."""
    completed = run(program_path(name), *arguments)
    assert completed.exit_code == 0, completed
    return parse_values(completed.stdout)


def program_path(name: str) -> str:
    return str(Path(__file__).parent / f"{name}.java")


def parse_values(text: str) -> dict[str, str]:
    """From lines of the form `name=value`."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


class Tools:
    """The tools on one cluster. A call returns what the tool printed, and fails the test if the tool failed."""

    def __init__(self, bootstrap: str, client_config: Path | None = None) -> None:
        self.bootstrap = bootstrap
        self._client_config = client_config
        """A file with the settings of a client that logs in."""

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> str:
        completed = self.run(tool, *arguments, stdin=stdin)
        assert completed.exit_code == 0, completed
        return completed.stdout

    def fail(self, tool: str, *arguments: str) -> str:
        """Run a tool that must fail, and return what it printed on stdout and stderr."""
        completed = self.run(tool, *arguments)
        assert completed.exit_code != 0, completed
        return completed.stdout + completed.stderr

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Completed:
        options = {"kafka-console-producer": "--producer.config", "kafka-console-consumer": "--consumer.config"}
        config = (options.get(tool, "--command-config"), str(self._client_config)) if self._client_config else ()
        return run(CLASSES[tool], "--bootstrap-server", self.bootstrap, *config, *arguments, stdin=stdin)

    # --- topics and records ------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, *options: str) -> None:
        assert f"Created topic {topic}." in self("kafka-topics", "--create", "--topic", topic, *options)

    def produce_lines(self, topic: str, text: str, *options: str) -> None:
        self("kafka-console-producer", "--topic", topic, *options, stdin=text)

    def produce_many(self, topic: str, records: int, size: int) -> str:
        """Records of random bytes; returns the report of the performance tool."""
        return run(
            CLASSES["kafka-producer-perf-test"], "--topic", topic, "--num-records", str(records),
            "--record-size", str(size), "--throughput", "-1",
            "--producer-props", f"bootstrap.servers={self.bootstrap}", "acks=all", "batch.size=4000",
        ).stdout  # fmt: skip

    def consume(self, topic: str, count: int, *options: str) -> list[str]:
        """The first `count` records as lines, sorted, as the order of partitions varies."""
        first = ("--topic", topic, "--from-beginning", "--max-messages", str(count))
        return sorted(self("kafka-console-consumer", *first, *options).splitlines())

    def describe_replicas(self, topic: str) -> list[tuple[str, str, str]]:
        """(leader, replicas, ISR) of every partition."""
        text = self("kafka-topics", "--describe", "--topic", topic)
        return re.findall(r"Leader: (\S+)\tReplicas: (\S+)\tIsr: (\S+)\tElr: \tLastKnownElr: \n", text)


def property_options(*properties: str) -> list[str]:
    return [word for value in properties for word in ("--property", value)]


def find_lines(pattern: str, text: str) -> list[Any]:
    """Matches at the beginning of lines: strings, or tuples if the pattern has several groups."""
    return re.findall(f"^{pattern}", text, re.MULTILINE)


def wait_for_output(command: Callable[[], str], is_expected: Callable[[str], bool]) -> str:
    """Repeat a command until its output is as expected, and return it."""
    outputs: list[str] = []

    def has_expected_output() -> bool:
        outputs.append(command())
        return is_expected(outputs[-1])

    wait_until(
        has_expected_output, "the command prints what is expected", timeout_s=TIMEOUT_S, state=lambda: outputs[-1]
    )
    return outputs[-1]
