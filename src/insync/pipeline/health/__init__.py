"""The history of a cluster's replication, reconstructed from its metadata log.

`metadata_log` reads the log, `history` replays it, `causes` attributes changes, `tables` and `page` present the result.
"""
