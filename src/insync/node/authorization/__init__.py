"""What each API needs: the same operations on the same resources as in Apache Kafka 4.1 (A1, A3).

A check runs before the handler. Most requests pass unchanged. A request of which some entries are refused reaches the
handler without them, and its response is completed with them; if nothing is left, the response is made by the check. So
a handler never sees what its client may not touch. Where a response lists what the client did not name (all topics, all
groups), completing it means to leave out what the client may not describe.

Fetches of consumers are the exception: their sessions remember partitions from request to request, so the fetch server
asks for each partition before it reads (A6).

`checks` has what all share; the other modules have the `Rights` of their APIs, which `insync.node.handlers` and
`insync.node.controller_apis` put next to the handlers.
"""
