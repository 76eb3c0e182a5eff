"""Apache Kafka's bytes and messages: frames, requests and responses, record batches, metadata records, error codes."""
