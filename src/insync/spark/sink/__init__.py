"""`format("insync")` as a sink, for batch jobs and streams: rows of Spark's Kafka connector into topics.

`writers` is what Spark calls, `task_writer` writes the rows of one task, `sender` sends its batches, and `fence` and
`stored_rows` keep a task that runs again from storing its rows twice (ADR 11).
"""
