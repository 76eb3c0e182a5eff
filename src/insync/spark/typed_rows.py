"""Decodes the keys and values of a query's rows, on executors. Importing it loads the compiled decoders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from insync.columnar.buffers import rows_without_columns
from insync.formats.decoder import DecodedColumn, decoder_for
from insync.formats.errors import MalformedValueError
from insync.spark.typed_options import TypedColumns


def decode_rows(batches: Iterator[pa.RecordBatch], typed: TypedColumns) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield decode_batch(batch, typed)


def decode_batch(batch: pa.RecordBatch, typed: TypedColumns) -> pa.RecordBatch:
    """Raises MalformedValueError if malformed records are to fail the query."""
    origins = dict(typed.corrupt)
    decoded = {name: decoder_for(value_format).decode(batch.column(name)) for name, value_format in typed.formats}
    if not typed.corrupt:
        for name, value_format in typed.formats:
            if decoded[name].status.any():
                raise _describe(batch, name, value_format.format, decoded[name])
    arrays = []
    for name in typed.columns:
        if name in origins:
            arrays.append(collect_malformed(batch.column(origins[name]), decoded[origins[name]]))
        else:
            arrays.append(decoded[name].column if name in decoded else batch.column(name))
    if not arrays:
        return rows_without_columns(batch.num_rows)
    return pa.RecordBatch.from_arrays(arrays, list(typed.columns))


def collect_malformed(raw: pa.Array, decoded: DecodedColumn) -> pa.Array:
    """Null, or why a value could not be decoded and its bytes."""
    bad = np.flatnonzero(decoded.status)
    codes = sorted(decoded.reasons)
    texts = pa.array([decoded.reasons[code] for code in codes], pa.string())
    reasons = texts.take(pa.array(np.searchsorted(codes, decoded.status[bad])))
    entries = pa.StructArray.from_arrays([reasons, raw.take(pa.array(bad))], ["reason", "data"])
    places = np.zeros(len(raw), np.int64)
    places[bad] = np.arange(len(bad))
    return entries.take(pa.array(places, mask=decoded.status == 0))


def _describe(batch: pa.RecordBatch, name: str, form: str, decoded: DecodedColumn) -> MalformedValueError:
    row = int(np.flatnonzero(decoded.status)[0])
    topic, partition, offset = (batch.column(column)[row].as_py() for column in ("topic", "partition", "offset"))
    return MalformedValueError(
        f"the {name} of {topic}-{partition} at offset {offset} cannot be decoded as {form}: "
        f"{decoded.reasons[int(decoded.status[row])]}. With option 'mode' set to PERMISSIVE such records are kept"
    )
