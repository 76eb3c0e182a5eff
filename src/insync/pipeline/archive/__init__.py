"""Archive topics into a lake of Parquet files, every record exactly once.

`job` runs on the driver, `plan` chooses the next offsets, `task` runs on executors, `verify` checks a finished lake.
"""
