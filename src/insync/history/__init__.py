"""What the clients of a live cluster saw, as a file of events, and the verdict of the properties on it.

`properties.history` is the in-memory form that the properties check; `verdict` translates the events of a file into it.
"""
