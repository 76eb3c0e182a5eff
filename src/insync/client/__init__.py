"""A Kafka client for the command line and for tests: small, asyncio, at home with any cluster that speaks the protocol.

    async with Cluster.connect("localhost:9092") as cluster:
        for topic in await topics.describe(cluster):
            ...

Versions are negotiated per connection (`connection`, `apis`); requests are written once, as plain values, and cut to
the version that the broker speaks (`loose`). Answers come back as the small classes of `model`. A failure is a
`ClientError` whose text is a sentence for people.
"""
