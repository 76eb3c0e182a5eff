"""Checks one file of a lake: its size, checksum, number of rows, and that its offsets increase and lie in its range."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from insync.lake.directory import find_size_problem
from insync.lake.ledger import File, Range
from insync.lake.staging import find_path, open_file
from insync.lake.store import Store


def find_file_problem(lake: Store, archived: Range, file: File) -> str:
    """What is wrong with a file; empty if nothing is."""
    if problem := find_size_problem(lake, file):
        return problem
    try:
        crc = lake.checksum(find_path(lake, file.path))
        if crc != file.crc:
            return f"{file.path} was changed: its checksum is {crc:08x} instead of {file.crc:08x}"
        with open_file(lake, file.path) as parquet:
            offsets = parquet.read(columns=["offset"]).column(0).to_numpy()
    except (pa.ArrowException, OSError) as error:
        return f"{file.path} cannot be read: {error}"
    if len(offsets) != file.rows:
        return f"{file.path} has {len(offsets)} rows instead of {file.rows}"
    if len(offsets) and (offsets[0] < archived.start or offsets[-1] >= archived.end or (np.diff(offsets) <= 0).any()):
        return f"{file.path} has offsets that do not increase, or are outside {archived.start} to {archived.end}"
    return ""
