"""insync: Kafka's replication protocol, to pip install, break on purpose and prove."""

__version__ = "0.1.0"
