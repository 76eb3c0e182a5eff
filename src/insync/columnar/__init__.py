"""Record batches as Arrow columns, without a Python loop over records. Needs `pip install insync[spark]`.

from insync.columnar.decode import Wanted, decode

decoded = decode(raw, Wanted(("offset", "key", "value")))
decoded.batch            # a pyarrow.RecordBatch
"""
