"""Spark on the log: decoding alone; rows per second of the source beside Spark's own connector, Parquet and a plain
consumer; the log's files; the archive; how it grows; topics into another cluster; and the campaign on one core and on
two.

    python bench/spark.py [--quick] [--without-kafka] [--json FILE] [PART...]

Parts are decode, typed, rows, files, scale, mirror and campaign.

One broker and `local[2]` on one machine. Aims, on two cores that nobody else uses and with Spark warm: at least the
connector's rows per second, source to noop 1.5 Mrow/s and archive 2 Mrow/s of 100 B records; nothing that grows faster
than the number of records, partitions or segments. CPU is of everything: Spark, its workers, the broker.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import spark_campaign
import spark_decode
import spark_growth
import spark_mirror
import spark_topics
import spark_typed
from common import table
from spark_measure import Sample
from spark_queries import Queries
from spark_topics import Load

from insync.pipeline.session import open_session
from insync.testing import Cluster

JARS = Path(__file__).parents[1] / "build" / "spark-kafka"
PARTS = ("decode", "typed", "rows", "files", "scale", "mirror", "campaign")
QUICK, FULL = 200_000, 2_000_000
"""Rows of 100 B; of 1 KB half as many."""


def main() -> int:
    arguments = _arguments()
    parts = arguments.parts or list(PARTS)
    results: dict[str, object] = {"load_average": os.getloadavg(), "cores": os.cpu_count()}
    jars = [] if arguments.without_kafka else sorted(JARS.glob("*.jar"))
    if not jars:
        print("Spark's Kafka connector is not measured (make spark-kafka fetches it)")
    if "decode" in parts:
        results["decode"] = spark_decode.measured(0.2 if arguments.quick else 2.0)
    if "typed" in parts:
        results["typed decoding"] = spark_typed.measure_decoding(0.2 if arguments.quick else 2.0)
    if set(parts) - {"decode", "campaign"}:
        with tempfile.TemporaryDirectory(prefix="insync-bench-") as directory:
            _with_spark(Path(directory), jars, parts, arguments.quick, results)
    if "campaign" in parts:
        results["campaign"] = spark_campaign.measured(40 if arguments.quick else 500)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))
    return 0


def _with_spark(directory: Path, jars: list[Path], parts: list[str], quick: bool, results: dict[str, object]) -> None:
    all_jars = [*jars, *sorted(spark_typed.AVRO_JARS.glob("*.jar"))]
    conf = {"spark.jars": ",".join(map(str, all_jars))} if all_jars else {}
    memory = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
    spark = open_session("local[2]", "insync-bench", **conf, **memory)
    rows = QUICK if quick else FULL
    try:
        with Cluster(brokers=1, directory=directory / "cluster") as cluster:
            runs = {"warm": 1, "runs": 1} if quick else {"warm": 2, "runs": 3}
            queries = Queries(spark, cluster, directory, connector=bool(jars), **runs)
            if "typed" in parts:
                results["typed"] = spark_typed.measure_queries(spark, cluster, rows // 2, **runs)
            if "rows" in parts:
                results["rows"] = by_load(cluster, queries, rows, quick)
            if "files" in parts:
                results["files"] = spark_growth.files(cluster, queries, rows)
            if "scale" in parts:
                results["scale"] = spark_growth.scale(cluster, queries, rows)
            if "mirror" in parts:
                results["mirror"] = spark_mirror.measured(spark, cluster, queries, directory, rows, **runs)
    finally:
        spark.stop()


def by_load(cluster: Cluster, queries: Queries, rows: int, quick: bool) -> dict[str, dict[str, float]]:
    """Every way to get at the rows of a topic, in one run each."""
    found = {}
    for size in (100,) if quick else (100, 1_000):
        for codec in ("none", "lz4"):
            load = Load(size, codec, rows if size == 100 else rows // 2)
            spark_topics.fill(cluster, load)
            samples = queries.of(load)
            theirs = samples.get("connector → noop")
            table(
                f"{load.title}, {load.rows:,} rows (load average {os.getloadavg()[0]:.1f})",
                ("", "Mrow/s", "CPU s/Mrow", "of the connector"),
                [_row(name, sample, load, theirs) for name, sample in samples.items()],
            )
            found[load.title] = {name: load.rows / sample.seconds for name, sample in samples.items()}
    return found


def _row(name: str, sample: Sample, load: Load, theirs: Sample | None) -> tuple[object, ...]:
    millions = load.rows / 1e6
    cpu: object = sample.cpu_seconds / millions if sample.cpu_seconds else ""
    ratio: object = f"{theirs.seconds / sample.seconds:.2f} x" if theirs else ""
    return name, millions / sample.seconds, cpu, ratio


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="few rows, one run")
    parser.add_argument("--without-kafka", action="store_true", help="without Spark's own connector")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    arguments = parser.parse_args()
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)} (there are {', '.join(PARTS)})")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
