"""A format's columns, as a mapping from name to Spark type, and the selection a user's schema makes among them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from insync.spark.option_values import OptionError
from insync.spark.pyspark_versions import HAS_ROWS_WITHOUT_COLUMNS, VERSION
from insync.spark.typed_options import TypedColumns, select_typed_columns


def select_columns(
    schema: StructType, columns: Mapping[str, str], typed: TypedColumns | None = None
) -> tuple[tuple[str, ...], TypedColumns | None]:
    """The columns to read for a user's schema, and what to decode of them. Raises if a column does not exist or has
    another type."""
    if not schema.fields and not HAS_ROWS_WITHOUT_COLUMNS:
        raise OptionError(f"Spark reads rows without columns since version 4.1; this is {VERSION}: name a column")
    added = typed.types if typed else {}
    for field in schema.fields:
        if field.name in added:
            continue
        if field.name not in columns:
            raise OptionError(f"there is no column '{field.name}'; there are {', '.join([*columns, *added][:40])}")
        if (kind := field.dataType.simpleString()) != columns[field.name]:
            raise OptionError(f"column '{field.name}' is {columns[field.name]}; the schema declares it as {kind}")
    if typed is None:
        return tuple(schema.fieldNames()), None
    selected = select_typed_columns(schema, typed)
    return selected.source_columns, selected
