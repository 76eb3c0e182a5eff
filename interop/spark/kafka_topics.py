"""Topics on Apache Kafka's brokers, and transactions, which only they have."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(60)


def transaction(bootstrap: str, topic: str, sent: list[bytes], *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in sent:
        producer.produce(topic, value)
    producer.flush(60)
    producer.commit_transaction(60) if commit else producer.abort_transaction(60)
