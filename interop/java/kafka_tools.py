"""Apache Kafka's command-line tools and our Java programs, each run as its own JVM, one at a time."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_kafka

HERE = Path(__file__).parent
PATIENCE_S = 120.0
"""Far more than anything takes; only a defect waits this long."""

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
"""A tool is gone before a better compiler or collector would pay."""
ARCHIVE = apache_kafka.LIBS.parent / "tools.jsa"
"""Classes as the JVM has them in memory, written by one run for the others: loading them is half of a tool's work."""

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
class Ran:
    code: int
    out: str
    err: str


def command(main: str, *arguments: str) -> list[str]:
    archive = (f"-XX:SharedArchiveFile={ARCHIVE}",) if ARCHIVE.exists() else ()
    return apache_kafka.java(main, *arguments, options=(*SHORT_LIVED, *archive))


def write_archive(bootstrap: str) -> None:
    """From a run that needs much of what the others need; without an archive they only take longer."""
    if not ARCHIVE.exists():
        options = (*SHORT_LIVED, f"-XX:ArchiveClassesAtExit={ARCHIVE}")
        ask = ("--bootstrap-server", bootstrap, "--describe", "--entity-type", "topics")
        subprocess.run(
            apache_kafka.java(CLASSES["kafka-configs"], *ask, options=options),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )


def run(main: str, *arguments: str, stdin: str = "") -> Ran:
    done = subprocess.run(
        command(main, *arguments), input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def program(name: str, *arguments: str) -> dict[str, str]:
    """What one of our Java programs says, by name; it must come to its end."""
    ran = run(str(HERE / f"{name}.java"), *arguments)
    assert ran.code == 0, ran
    return facts(ran.out)


def facts(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


class Tools:
    """The tools, pointed at one cluster. Every call is checked to succeed unless it is expected to be refused."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> str:
        ran = self.run(tool, *arguments, stdin=stdin)
        assert ran.code == 0, ran
        return ran.out

    def refused(self, tool: str, *arguments: str) -> str:
        """Everything that it printed."""
        ran = self.run(tool, *arguments)
        assert ran.code != 0, ran
        return ran.out + ran.err

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Ran:
        return run(CLASSES[tool], "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin)

    # --- what most tests need ----------------------------------------------------------------------------------------

    def create(self, topic: str, *more: str) -> None:
        assert f"Created topic {topic}." in self("kafka-topics", "--create", "--topic", topic, *more)

    def write(self, topic: str, text: str, *more: str) -> None:
        self("kafka-console-producer", "--topic", topic, *more, stdin=text)

    def write_many(self, topic: str, records: int, size: int) -> str:
        return run(
            CLASSES["kafka-producer-perf-test"], "--topic", topic, "--num-records", str(records),
            "--record-size", str(size), "--throughput", "-1",
            "--producer-props", f"bootstrap.servers={self.bootstrap}", "acks=all", "batch.size=4000",
        ).out  # fmt: skip

    def read(self, topic: str, count: int, *more: str) -> list[str]:
        """Sorted, as partitions come in any order."""
        options = ("--topic", topic, "--from-beginning", "--max-messages", str(count))
        return sorted(self("kafka-console-consumer", *options, *more).splitlines())

    def replicas(self, topic: str) -> list[tuple[str, str, str]]:
        """Of each partition: leader, replicas, ISR."""
        text = self("kafka-topics", "--describe", "--topic", topic)
        return re.findall(r"Leader: (\S+)\tReplicas: (\S+)\tIsr: (\S+)\tElr: \tLastKnownElr: \n", text)


def properties(*values: str) -> list[str]:
    return [part for value in values for part in ("--property", value)]


def lines_of(pattern: str, text: str) -> list[Any]:
    return re.findall(f"^{pattern}", text, re.MULTILINE)


def until(look: Callable[[], str], satisfied: Callable[[str], bool]) -> str:
    """The first look that satisfies, or one long after it should have."""
    deadline = time.monotonic() + PATIENCE_S
    while not satisfied(seen := look()) and time.monotonic() < deadline:
        pass
    return seen
