"""Check the log directories of a cluster, and the histories of its clients, against the protocol's properties.

`job` runs both parts on Spark. `logs` checks log directories and knows nothing of Spark: what is there (`inventory`)
and what should be (`cluster_metadata`, `placement`), each log (`segments`, `log_ends`, `replica_files`,
`quorum_files`), and replicas against each other (`log_matching`, `compacted_records`). `history` checks what clients
recorded (`prefilter` finds the suspicious places first). `findings` groups what was found by cause.
"""
