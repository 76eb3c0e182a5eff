"""Archives ranges of numbered rows into a lake until it is killed: python archive_forever.py URL.

Every second range is merged with the one before it, by a compactor of the same process.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from insync.lake.directory import Lake
from insync.lake.ledger import RANGES, REPLACE, Range
from insync.lake.staging import STAGED, publish
from insync.lake.store import Store
from insync.lake.writer import RangeWriter
from tests.lake.lake_rows import make_rows

ROWS = 20


def write_range(store: Store, start: int, end: int, *, attempt: str, prefix: str = "part") -> Range:
    writer = RangeWriter(
        store, topic="t", partition=0, start=start, end=end, attempt=f"{attempt}-1", codec="lz4", prefix=prefix
    )
    writer.add(make_rows(start, list(range(start, end))))
    files = tuple(writer.close())
    return Range(
        topic="t", topic_id="A", partition=0, generation=0, start=start, end=end, rows=end - start, files=files
    )


def main(place: str) -> None:
    lake = Lake.open(place, {"isolation": "read_committed"})
    compactor = Lake.open_for_compaction(place)
    publish(compactor.ledger, 0.0)
    last = lake.ledger.last(("t", 0))
    end = 0 if last is None else last.end
    print("open", flush=True)
    while True:
        archived = write_range(lake.store, end, end + ROWS, attempt=lake.writer)
        lake.ledger.commit(RANGES, lake.writer, ranges=[archived])
        end += ROWS
        compactor.ledger.refresh()
        *_, before, last = [None, *compactor.ledger.ranges()]
        if before is not None and last is not None and last.rows < before.rows * 4:
            merged = write_range(
                lake.store.child(STAGED), before.start, last.end, attempt=f"{compactor.writer}", prefix="compact"
            )
            compactor.ledger.commit(REPLACE, compactor.writer, ranges=[replace(merged)])
            publish(compactor.ledger, 0.0)
        print(end, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
