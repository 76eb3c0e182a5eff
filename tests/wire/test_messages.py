"""The namespaces of messages are made from the table of APIs, when they are first used."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from insync.wire import get_replica_log_info, messages
from insync.wire.apis import APIS, SERVED
from insync.wire.messages import describe_topic_partitions, fetch, fetch_snapshot


def namespace(name: str) -> Any:
    """The object that `messages` has under this name; the stub calls it a class."""
    return getattr(messages, name)


def test_a_namespace_holds_request_and_response_of_the_pinned_version() -> None:
    assert fetch.FetchRequest.__api_key__ == fetch.FetchResponse.__api_key__ == APIS["fetch"].key
    assert fetch.FetchRequest.__version__ == fetch.PartitionData.__version__ == APIS["fetch"].pinned


def test_a_name_of_both_sides_gets_the_side_as_prefix() -> None:
    alter_partition = namespace("alter_partition")
    assert alter_partition.RequestPartition is not alter_partition.ResponsePartition
    assert fetch_snapshot.RequestTopic.__name__ == fetch_snapshot.ResponseTopic.__name__ == "TopicSnapshot"
    assert fetch_snapshot.RequestSnapshotId.__name__ == "SnapshotId"
    assert describe_topic_partitions.RequestCursor.__name__ == "Cursor"


def test_an_api_that_kio_lacks_takes_its_classes_from_its_module() -> None:
    assert namespace("get_replica_log_info").PartitionLogInfo is get_replica_log_info.PartitionLogInfo


@pytest.mark.parametrize("name", ["fetsch", "controller_registration", "APIs"])
def test_unknown_apis_and_classes_are_attribute_errors(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(messages, name)
    with pytest.raises(AttributeError, match=name):
        getattr(fetch, name)


def test_a_namespace_in_use_is_an_ordinary_module_object() -> None:
    assert fetch.FetchRequest.__name__ == "FetchRequest"
    assert type(namespace("fetch")) is ModuleType


def test_importing_a_namespace_loads_no_schema() -> None:
    """The classes of all APIs take longer than the rest of a node's start."""
    program = (
        "import sys\n"
        "from insync.wire.messages import fetch\n"
        "print('kio.schema.fetch' in sys.modules)\n"
        "fetch.FetchRequest\n"
        "print('kio.schema.fetch' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "True"]


def test_keys_ascend_and_pinned_versions_are_served() -> None:
    """A client may use the nodes' own version of every API that is for clients."""
    keys = [api.key for api in APIS.values()]
    assert keys == sorted(set(keys))
    assert list(SERVED) == [api.key for api in APIS.values() if api.served]
    for api in APIS.values():
        assert api.served is None or api.served[0] <= api.pinned <= api.served[1]
