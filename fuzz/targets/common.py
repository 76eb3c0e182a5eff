"""What the targets share: every API in every version, names that exist in the nodes, and valid CRCs."""

from __future__ import annotations

from random import Random
from struct import pack
from typing import Any
from uuid import UUID

from fuzz.generate import Pool
from insync.metadata import configs
from insync.wire import batch, codec
from insync.wire.apis import PINNED, SERVED
from insync.wire.messages import describe_quorum
from insync.wire.versions.translator import LOWEST_PRODUCE

TOPIC = UUID("11111111-2222-3333-4444-555555555555")

SUBSCRIPTION = pack(">hih", 0, 1, 1) + b"t" + pack(">i", -1)
"""The subscription of a consumer to topic `t`."""

TEXTS = (
    *("t", "t", "t", "c", "u", "__consumer_offsets", "__cluster_metadata", "g", "g", "h", "m", ""),
    *("consumer", "range", "1", "2", "metadata.version", "kraft.version", "fuzz"),
)
CONFIG_NAMES = (*sorted(configs.TOPIC_KEYS), *sorted(configs.BROKER_KEYS))
CONFIG_VALUES = (
    *("0", "1", "2", "3", "100", "-1", "-2", "1000", "9223372036854775807", "2147483647", "99999999999999999999"),
    *("true", "false", "compact", "delete", "compact,delete", "", "0.5", "nan", "inf", "1e9", "LogAppendTime", "²:1"),
    *("0:1", "*", "0:1,²:1", "1_000", " 1", "balanced", "proactive", "manual", "producer", "zstd", "0:" + "1" * 5_000),
)
_CONFIG_CLASSES = ("AlterableConfig", "CreatableTopicConfig", "ConfigRecord")


def pool(*topic_ids: UUID) -> Pool:
    zero, one = UUID(int=0).bytes, UUID(int=1).bytes
    asked = codec.encode_request(describe_quorum.DescribeQuorumRequest(topics=()), 1, "c")
    return Pool(
        texts=TEXTS,
        uuids=(zero, one, *[topic_id.bytes for topic_id in topic_ids] * 3, UUID(int=2**127).bytes),
        special={(cls, "name"): CONFIG_NAMES for cls in _CONFIG_CLASSES}
        | {(cls, "value"): CONFIG_VALUES for cls in _CONFIG_CLASSES},
        blobs=(
            b"",
            SUBSCRIPTION,
            SUBSCRIPTION,
            b"x",
            asked,
            bytes(batch.build([batch.NewRecord(b"k", b"v")], timestamp_ms=1)),
        ),
    )


def write_crcs(data: bytearray) -> None:
    """Give every whole batch a valid CRC, in place."""
    for pos, header in batch.iter_headers(data):
        data[pos + 17 : pos + 21] = batch.crc_of(data, pos, header).to_bytes(4, "big")


def random_type(types: list[Any], rng: Random) -> Any:
    """Every API with the same probability, however many versions it has."""
    key = rng.choice(sorted({cls.__api_key__ for cls in types}))
    return rng.choice([cls for cls in types if cls.__api_key__ == key])


def request_types() -> list[Any]:
    """The requests that a node serves, in every version."""
    types: list[Any] = []
    for key, pinned in PINNED.items():
        low, high = SERVED.get(key, (pinned, pinned))
        low = max(low, LOWEST_PRODUCE) if key == 0 else low
        types += [codec.request_type(key, version) for version in range(low, high + 1)]
    return types
