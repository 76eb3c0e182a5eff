"""Check the log directories of a cluster, and the histories of its clients, against the protocol's properties.

`job` runs both parts: `logs` compares replicas (`segments`, `log_matching`, `compacted_records`), `history` checks what
clients recorded (`prefilter` finds the suspicious places first).
"""
