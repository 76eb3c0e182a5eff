"""Values in JSON, Avro and Protobuf as Arrow columns, without a Python loop over records. Needs `insync[spark]`.

`decoder.py` is the entrance; `layout.py` describes how compiled code and Arrow arrays meet. docs/guides/typed-values.md
describes the options of the Spark sources that use it.
"""
