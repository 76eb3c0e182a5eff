"""Translation between the versions that clients speak and the one that nodes speak.

    translator = VersionTranslator(names)
    context = translator.receive(frame)                 # MalformedFrameError, UnknownApiError: close the connection
    if context.request is None:                         # answered here; the request does not reach the node
        transport.writelines(translator.encode_response(context, None))
    node.step(Request(token, context.request), now)
    ...
    transport.writelines(translator.encode_response(context, reply.response))

`wire.apis` pins the nodes' version. Most versions differ by added fields, which `wire.convert` handles for any pair of
classes. `records` (Produce, Fetch), `cluster` and `groups` translate where an API was regrouped or changed its meaning.
"""
