"""Columns that a format has, by name the type as Spark writes it; and those of them that a user's schema asks for."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from insync.spark.client_options import OptionError


def ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def asked_for(schema: StructType, columns: Mapping[str, str]) -> tuple[str, ...]:
    for field in schema.fields:
        if field.name not in columns:
            raise OptionError(f"there is no column '{field.name}'; there are {', '.join(columns)}")
        if (kind := field.dataType.simpleString()) != columns[field.name]:
            raise OptionError(f"the schema has column '{field.name}' as {kind}: it is {columns[field.name]}")
    return tuple(schema.fieldNames())
