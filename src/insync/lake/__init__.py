"""Lakes: archived topics as Parquet files, and the ledger that says which files count.

    from insync import lake
    lake.read(spark, "lake", ["orders"]).where("date = current_date()").count()

`journal` and `ledger` hold what is archived, `directory` opens and cleans up, `writer` and `reader` handle the files.
The names in `__all__` are public; the submodules are not.
"""

from insync.lake.directory import LakeError, read

__all__ = ["LakeError", "read"]
