"""Where clients of any version meet a node that speaks one.

    edge = Edge(apis.TYPES, apis.SERVED, names)
    exchange = edge.receive(frame)                      # MalformedFrame or UnknownApi: close the connection
    if exchange.request is None:                        # settled here, the node need not know
        transport.writelines(edge.answer(exchange, None))
    node.step(Request(token, exchange.request), now)
    ...
    transport.writelines(edge.answer(exchange, reply.response))

The node's own version is the one that `wire.messages` pins. Most versions differ by fields that were added, which
`convert` handles for any pair of classes; where an API was regrouped or changed its mind, `records` (Produce, Fetch),
`cluster` and `groups` say so.
"""

from insync.wire.edge.edge import Edge
from insync.wire.edge.exchange import Exchange, TopicNames

__all__ = ["Edge", "Exchange", "TopicNames"]
