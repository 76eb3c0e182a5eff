"""The asyncio shell around a node: sockets, timers, threads for the disk, and what people see of it."""
