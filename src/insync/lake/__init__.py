"""Lakes: archived topics as Parquet files, and the ledger that says which files count.

    from insync import lake
    lake.read(spark, "lake", ["orders"]).where("date = current_date()").count()

`store` is where it is: a directory, or an object store (`objects`). `journal` and `ledger` hold what is archived,
`directory` opens and cleans up, `writer`, `reader` and `frames` handle the files.
The names in `__all__` are public; the submodules are not.
"""

from insync.lake.frames import read
from insync.lake.store import LakeError

__all__ = ["LakeError", "read"]
