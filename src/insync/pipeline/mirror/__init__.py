"""Mirror topics from one cluster to another, every record exactly once, and compare two clusters.

`job` runs on the driver and keeps its `state` in a file: `plan` chooses the next offsets, `target` prepares the topics,
`groups` translates committed offsets with an `offset_map`. On executors, `task` reads from the source and writes the
`batches`. `verify` compares two clusters; `compare` names the differences of two logs.
"""
