"""The throttle configs list the replicas that copy and those that are copied from."""

from insync.ops.reassignment.throttle import FOLLOWER_REPLICAS, LEADER_REPLICAS, throttled_replicas


def test_leaders_and_added_followers_are_listed() -> None:
    """R6."""
    current = {("t", 0): (1, 2), ("t", 1): (2, 3)}
    assert throttled_replicas(current, {("t", 0): (2, 4), ("t", 1): (2, 3)}) == {
        "t": {LEADER_REPLICAS: "0:1,0:2,1:2,1:3", FOLLOWER_REPLICAS: "0:4"}
    }
