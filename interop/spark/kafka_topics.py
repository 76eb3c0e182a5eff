"""Topics and transactions on Apache Kafka's brokers."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.polling import TIMEOUT_S


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: object) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): str(value) for name, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(TIMEOUT_S)


def run_transaction(bootstrap: str, topic: str, values: list[bytes], *, commit: bool) -> None:
    """Send values in one transaction, and commit or abort it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)
