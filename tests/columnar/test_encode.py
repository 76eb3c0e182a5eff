"""Encoded batches decode to the rows that they were made of, with `decode` and record by record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.client.producer import partition_for
from insync.columnar.buffers import HEADERS_TYPE
from insync.columnar.columns import to_binary_column, to_columns
from insync.columnar.decode import DecodeOptions, decode
from insync.columnar.digest import compute_digests
from insync.columnar.encode import BatchBuilder
from insync.columnar.partitioning import BLOCK, choose_partitions, group_by_partition
from insync.columnar.record_sizes import estimate_record_sizes
from insync.wire import batch

BYTES = st.none() | st.binary(max_size=300)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3)
ROWS = st.lists(st.tuples(BYTES, BYTES, HEADERS, st.integers(0, 1 << 41)), min_size=1, max_size=60)


def arrays(rows: list[Any]) -> list[pa.Array]:
    headers = [None if h is None else [{"key": k, "value": v} for k, v in h] for _, _, h, _ in rows]
    return [
        pa.array([value for _, value, _, _ in rows], pa.binary()),
        pa.array([key for key, _, _, _ in rows], pa.binary()),
        pa.array(headers, HEADERS_TYPE),
        pa.array([time * 1_000 for *_, time in rows], pa.timestamp("us", tz="UTC")),
    ]


def build(rows: list[Any], codec: int, target: int, skip: int = 0) -> list[bytes]:
    prepared = to_columns(*(array.slice(skip) for array in arrays(rows)))
    indexes = np.arange(len(rows) - skip)
    builder = BatchBuilder(codec, target)
    batches, first, sent = [], 0, 0
    while first < len(indexes):
        taken = builder.add(prepared, indexes, first, 0)
        first += taken
        if not taken:
            batches.append(builder.finish(7, 1, sent))
            sent = first
    return [*batches, builder.finish(7, 1, sent)]


@pytest.mark.parametrize("codec", range(5))
@given(rows=ROWS, target=st.integers(70, 4_000), skip=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_records_come_back_as_they_went_in(codec: int, rows: list[Any], target: int, skip: int) -> None:
    rows = rows + rows[:1] * skip
    batches = build(rows, codec, target, skip)
    records = [record for data in batches for record in batch.records(data)]
    assert [(r.key, r.value, tuple(r.headers), r.timestamp_ms) for r in records] == [
        (key, value, tuple(headers or ()), time) for key, value, headers, time in rows[skip:]
    ]
    for data in batches:
        header = batch.read_header(data)
        assert batch.crc_ok(data, 0, header)
        assert header.length == len(data)
        assert not decode(data, DecodeOptions(("key", "value", "headers"))).corrupt
        assert header.max_timestamp == max(r.timestamp_ms for r in batch.records(data))
    assert [batch.read_header(data).base_sequence for data in batches] == [
        sum(batch.read_header(data).count for data in batches[:i]) for i in range(len(batches))
    ]


def test_batches_do_not_exceed_their_target_unless_one_record_does() -> None:
    rows = [(None, b"x" * size, None, 1) for size in (10, 10, 500, 10)]
    assert [batch.read_header(data).count for data in build(rows, 0, 120)] == [2, 1, 1]


def test_rows_are_chosen_and_ordered_by_index() -> None:
    prepared = to_columns(pa.array(["a", "b", "c"]))
    builder = BatchBuilder()
    assert builder.add(prepared, np.array([2, 0]), 0, 5) == 2
    assert [(r.value, r.timestamp_ms) for r in batch.records(builder.finish())] == [(b"c", 5), (b"a", 5)]


@given(keys=st.lists(st.binary(max_size=40), min_size=1, max_size=50), partitions=st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_keys_go_where_kafkas_clients_send_them(keys: list[bytes], partitions: int) -> None:
    chosen, _ = choose_partitions(
        to_binary_column(pa.array(keys, pa.binary())), np.full(len(keys), -1, np.int32), partitions, 3, 0
    )
    assert chosen.tolist() == [partition_for(key, partitions) for key in keys]


def test_rows_without_keys_are_partitioned_in_blocks_by_their_number() -> None:
    count = 3 * BLOCK + 10
    keys = to_binary_column(pa.nulls(count, pa.binary()))
    whole, _ = choose_partitions(keys, np.full(count, -1, np.int32), 4, 2, 0)
    assert np.unique(whole[:BLOCK]).tolist() == [2]
    assert [int(whole[i]) for i in (0, BLOCK, 2 * BLOCK, 3 * BLOCK)] == [2, 3, 0, 1]
    first, before = choose_partitions(to_binary_column(pa.nulls(700, pa.binary())), np.full(700, -1, np.int32), 4, 2, 0)
    rest, _ = choose_partitions(
        to_binary_column(pa.nulls(count - 700, pa.binary())), np.full(count - 700, -1, np.int32), 4, 2, before
    )
    assert np.concatenate([first, rest]).tolist() == whole.tolist()


def test_a_given_partition_wins_over_the_key() -> None:
    chosen, _ = choose_partitions(to_binary_column(pa.array([b"a", b"b"])), np.array([5, -1], np.int32), 6, 0, 0)
    assert chosen.tolist() == [5, partition_for(b"b", 6)]


def test_groups_keep_the_order_of_rows() -> None:
    groups = group_by_partition(np.array([2, 0, 2, 0, 2], np.int32), 4)
    assert {partition: rows.tolist() for partition, rows in groups} == {0: [1, 3], 2: [0, 2, 4]}


def test_large_types_are_accepted() -> None:
    prepared = to_columns(pa.array(["a"], pa.large_string()), pa.array([b"k"], pa.large_binary()))
    builder = BatchBuilder()
    builder.add(prepared, np.array([0]), 0, 1)
    assert [(r.key, r.value) for r in batch.records(builder.finish())] == [(b"k", b"a")]


@given(rows=ROWS)
@settings(max_examples=100, deadline=None)
def test_digests_are_equal_where_records_are_and_differ_where_they_differ(rows: list[Any]) -> None:
    whole = [(key, value, tuple(headers or ())) for key, value, headers, _ in rows]
    digests = compute_digests(to_columns(*arrays(rows)[:3]), np.arange(len(rows))).tolist()
    assert [digests.index(digest) for digest in digests] == [whole.index(row) for row in whole]
    again = compute_digests(
        to_columns(*(array.slice(1) for array in arrays(rows[:1] + rows)[:3])), np.arange(len(rows))
    )
    assert again.tolist() == digests


def test_sizes_are_estimated_as_the_java_producer_does() -> None:
    """The figures are those of `AbstractRecords.estimateSizeInBytesUpperBound` for magic 2."""
    values = pa.array([b"", None, b"x" * 63, b"x" * 64, b"x" * 100_000], pa.binary())
    keys = pa.array([None, b"k", None, None, b"x" * 9_000], pa.binary())
    headers = pa.array([None, [("a", b"bc"), ("d", None)], None, None, [("h", b"")]], HEADERS_TYPE)
    overhead = 61 + 21
    expected = [1 + 1 + 1, 2 + 1 + 1 + 2 + 3 + 2 + 1, 1 + 64 + 1, 1 + 66 + 1, 9_003 + 100_003 + 1 + 2 + 1]
    sizes = estimate_record_sizes(to_columns(values, keys, headers))
    assert sizes.tolist() == [overhead + size for size in expected]
    part = to_columns(values.slice(1), keys.slice(1), headers.slice(1))
    assert estimate_record_sizes(part).tolist() == sizes.tolist()[1:]


def test_a_digest_depends_on_where_a_key_ends() -> None:
    pairs = [(b"ab", b"c"), (b"a", b"bc"), (None, b"abc"), (b"", b"abc"), (b"abc", None), (b"abc", b"")]
    keys, values = (pa.array(column, pa.binary()) for column in zip(*pairs, strict=True))
    assert len(set(compute_digests(to_columns(values, keys), np.arange(6)).tolist())) == 6
