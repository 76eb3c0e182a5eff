"""Record batches as Arrow columns and back, without a Python loop over records. Needs `pip install insync[spark]`.

from insync.columnar.decode import DecodeOptions, decode

decoded = decode(raw, DecodeOptions(("offset", "key", "value")))
decoded.batch            # a pyarrow.RecordBatch
"""
