"""Moving partitions between brokers: which replicas to move, how far the copies are, and how fast they may be."""
