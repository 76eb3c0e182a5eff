"""Write a lake back to topics, exactly once.

`job` runs on the driver and keeps its `state` in a journal; on executors, `task` reads the lake and writes
with `sender`.
"""
