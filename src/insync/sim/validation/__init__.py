"""Simulated runs as traces of the published TLA+ specification of Kafka's replication (docs/protocol/validation.md)."""
