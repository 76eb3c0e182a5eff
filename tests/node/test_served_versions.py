"""The table of versions: the node serves every version that ApiVersions advertises."""

from __future__ import annotations

import pytest

from insync.wire import codec
from insync.wire.apis import PINNED, SERVED
from insync.wire.versions.translator import LOWEST_PRODUCE

WITHOUT_LOSS = {1: 18}
"""APIs with versions above the node's own, whose additions a node has no use for; their modules say why."""


@pytest.mark.parametrize("key", SERVED)
def test_every_advertised_version_has_a_schema_and_a_way_to_the_nodes_own(key: int) -> None:
    (low, high), request = SERVED[key], codec.pinned_request_type(key)
    assert request is not None
    assert request.__api_key__ == key
    assert high <= WITHOUT_LOSS.get(key, request.__version__), "the node would lose what the newer version says"
    for version in range(LOWEST_PRODUCE if key == 0 else low, high + 1):
        assert codec.request_type(key, version).__api_key__ == key


def test_every_request_of_the_node_is_found_by_its_key() -> None:
    for key in PINNED:
        request = codec.pinned_request_type(key)
        assert request is not None
        assert request.__api_key__ == key
    assert set(SERVED) <= set(PINNED)
    assert list(SERVED) == sorted(SERVED)


def test_produce_begins_at_0_for_old_librdkafka() -> None:
    """W3."""
    assert SERVED[0] == (0, 13)


def test_what_only_nodes_say_to_each_other_is_not_advertised() -> None:
    for key in (52, 53, 54, 56, 58, 59, 62, 63, 67, 93):
        assert key in PINNED
        assert key not in SERVED
