"""Lakes as tables of Delta Lake or Apache Iceberg: a table per topic, whose own commits say what is archived.

`ledger` is the state of an archive in terms of tables, `delta` and `iceberg` are the two kinds. They need the extras
`insync[delta]` and `insync[iceberg]`.
"""
