"""Log directories on disk, Apache Kafka's and ours, read without a broker and without Spark (needs `insync[spark]`).

`files` lists replicas and plans which segments to read, `rows` reads a segment as Arrow batches:

    from insync.logdir import files, rows
    from insync.logdir.options import ReadOptions

    for segment in files.plan_segments(ReadOptions(paths=("/var/lib/kafka",), topics=("orders",))):
        for batch in rows.read_segment(segment, ("offset", "value")):
            print(segment.broker, segment.name, batch.num_rows)

Files are opened for reading only, so a broker may be running meanwhile.
"""
