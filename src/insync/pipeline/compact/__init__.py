"""Merge a lake's small files into large ones, and remove old ones, while readers and an archiver go on.

`job` runs on the driver, `plan` chooses ranges to merge or to expire, `task` merges on executors.
"""
