"""How full a cluster is: skew between brokers, growth, the cost of retention, and a reassignment that evens it out.

`segment_sizes` and `superseded` measure files, `cluster_load` puts them together with the metadata log, `growth`,
`retention_cost` and `skew` compute on plain data, `job` makes the report, `page` and the command present it.
"""
