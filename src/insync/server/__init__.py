"""The asyncio shell around a node: sockets, timers, threads for the disk, logs and metrics."""
