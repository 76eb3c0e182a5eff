"""Bytes to messages and back, as Apache Kafka writes them: frames, record batches, metadata records, error codes."""
