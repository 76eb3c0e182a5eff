"""A format's columns, as a mapping from name to Spark type, and the selection a user's schema makes among them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from insync.spark.option_values import OptionError
from insync.spark.pyspark_versions import HAS_ROWS_WITHOUT_COLUMNS, VERSION


def to_ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def select_columns(schema: StructType, columns: Mapping[str, str]) -> tuple[str, ...]:
    """The names in a user's schema. Raises if one does not exist or has another type."""
    if not schema.fields and not HAS_ROWS_WITHOUT_COLUMNS:
        raise OptionError(f"Spark reads rows without columns since version 4.1; this is {VERSION}: name a column")
    for field in schema.fields:
        if field.name not in columns:
            raise OptionError(f"there is no column '{field.name}'; there are {', '.join(columns)}")
        if (kind := field.dataType.simpleString()) != columns[field.name]:
            raise OptionError(f"column '{field.name}' is {columns[field.name]}; the schema declares it as {kind}")
    return tuple(schema.fieldNames())
