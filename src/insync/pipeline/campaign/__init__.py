"""Run the simulator's seeds on every core that Spark has.

`job` runs on the driver, `seeds` on executors; `store` keeps the results, so that a campaign can be resumed.
"""
