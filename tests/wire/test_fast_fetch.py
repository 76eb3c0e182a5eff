"""The hand-written Fetch request is byte for byte the general one."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from insync.wire import codec, fast_fetch
from insync.wire.messages import fetch
from insync.wire.types import ms

_i32 = st.integers(-(2**31), 2**31 - 1)
_i64 = st.integers(-(2**63), 2**63 - 1)
_ids = st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
_partitions = st.builds(
    fetch.FetchPartition,
    partition=_i32,
    current_leader_epoch=_i32,
    fetch_offset=_i64,
    last_fetched_epoch=_i32,
    log_start_offset=_i64,
    partition_max_bytes=_i32,
)
_topics = st.builds(fetch.FetchTopic, topic_id=_ids, partitions=st.lists(_partitions, max_size=3).map(tuple))
_forgotten = st.builds(fetch.ForgottenTopic, topic_id=_ids, partitions=st.lists(_i32, max_size=3).map(tuple))
_requests = st.builds(
    fetch.FetchRequest,
    cluster_id=st.none(),
    replica_state=st.builds(fetch.ReplicaState, replica_id=_i32, replica_epoch=_i64),
    max_wait=st.integers(0, 2**31 - 1).map(ms),
    min_bytes=_i32,
    max_bytes=_i32,
    isolation_level=st.integers(-128, 127),
    session_id=_i32,
    session_epoch=_i32,
    topics=st.lists(_topics, max_size=3).map(tuple),
    forgotten_topics_data=st.lists(_forgotten, max_size=3).map(tuple),
    rack_id=st.just(""),
)


@given(_requests, st.integers(0, 2**31 - 1))
def test_it_is_what_the_general_way_gives(request: fetch.FetchRequest, correlation_id: int) -> None:
    assert fast_fetch.encode_request(request, correlation_id, b"me") == codec.encode_request(
        request, correlation_id, "me"
    )


@given(_requests, st.sampled_from(["rack", "cluster"]))
def test_what_followers_never_say_is_declined(request: fetch.FetchRequest, more: str) -> None:
    values = {name: getattr(request, name) for name in type(request).__dataclass_fields__ if not name.startswith("_")}
    values |= {"rack_id": "east"} if more == "rack" else {"cluster_id": "c"}
    assert fast_fetch.encode_request(fetch.FetchRequest(**values), 1, b"me") is None
