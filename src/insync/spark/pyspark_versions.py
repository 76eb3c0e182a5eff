"""What versions of PySpark have, and stand-ins for what older ones lack.

| | since |
|---|---|
| Python data sources, Arrow batches from readers and to batch writers | 4.0 |
| `pushFilters`; rows without columns; Arrow batches to stream writers (4.0 passes them to batch writers only) | 4.1 |
| admission control: `latestOffset(start, limit)`, limits, `Trigger.AvailableNow` in several batches | 4.2 |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import __version__ as VERSION  # noqa: N812
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

HAS_ROWS_WITHOUT_COLUMNS = hasattr(datasource, "Filter")
"""4.0 drops them."""

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_ADMISSION_CONTROL = True
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:

        class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
            """4.0 decides by the second class whether it passes Arrow batches, also to a stream's writer."""

    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        HAS_ADMISSION_CONTROL = True
    except ImportError:
        HAS_ADMISSION_CONTROL = False

        class ReadLimit:
            pass

        class ReadAllAvailable(ReadLimit):
            pass

        class ReadMaxRows(ReadLimit):
            pass

        class ReadMinRows(ReadLimit):
            pass

        class SupportsTriggerAvailableNow:
            pass


__all__ = [
    "HAS_ADMISSION_CONTROL",
    "HAS_ROWS_WITHOUT_COLUMNS",
    "VERSION",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]
