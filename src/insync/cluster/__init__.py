"""A cluster of real node processes on this machine whose processes, network and disks fail on command.

`insync.Cluster` is the public name of what `cluster` defines. Each node runs `python -m insync.cluster.node`, which is
the ordinary server with a network and a disk that obey the faults imposed on them.
"""
