"""All benchmarks, each in a process of its own: python bench/run.py [--quick] [--json FILE] [--without-kafka] [name...]

Numbers depend on the machine; what counts are the ratios within one run. `cluster` is a cluster of real processes with
Apache Kafka beside it, where its jars are; `cluster.startup` and the like are parts of it. Measured only when they are
named: `cluster.worst_wait`, which floods a node with every API and tells how long others wait; `large_requests`,
`metadata_steps` and `metadata_churn`, which look at requests with many entries and at big metadata changes; `spark`,
which needs a Java runtime, and its parts, such as `spark.rows`. `security` compares SASL_SSL with PLAINTEXT, of both
clusters. The options are for clusters and Spark; of `security`, FILE has the suffix .security.json, and of
`spark.partitions` and `spark.connections` likewise.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ALONE = ("wire", "storage", "replication", "node_produce", "simulator", "scale")
ALONE_IF_NAMED = ("large_requests", "metadata_steps", "metadata_churn")
CLUSTER = "cluster"
PARTS = tuple(f"{CLUSTER}.{group}" for group in ("startup", "load", "tail", "cpu", "failover", "partitions"))
WORST_WAIT = "cluster.worst_wait"
SECURITY = "security"
SPARK = "spark"
SPARK_PARTS = tuple(f"{SPARK}.{part}" for part in ("decode", "rows", "files", "scale", "mirror", "campaign"))
SPARK_GROWTH = (f"{SPARK}.partitions", f"{SPARK}.connections")
"""With clusters of their own."""
BENCHMARKS = (*ALONE, *ALONE_IF_NAMED, CLUSTER, *PARTS, WORST_WAIT, SECURITY, SPARK, *SPARK_PARTS, *SPARK_GROWTH)


def main() -> int:
    arguments = _arguments()
    names = arguments.names or [*ALONE, CLUSTER, SECURITY]
    failed = [name for name in (*ALONE, *ALONE_IF_NAMED) if name in names and not _run(name)]
    for whole, parts in ((CLUSTER, PARTS), (SPARK, SPARK_PARTS)):
        groups = [name.partition(".")[2] for name in names if name in parts and whole not in names]
        if (whole in names or groups) and not _run(whole, *_options(arguments), *groups):
            failed.append(whole)
    for name in SPARK_GROWTH:
        script = name.replace(".", "_")
        if (SPARK in names or name in names) and not _run(script, *_options(arguments, suffix=f".{script}.json")):
            failed.append(name)
    if WORST_WAIT in names and not _run("cluster_worst_wait", *_options(arguments)):
        failed.append(WORST_WAIT)
    if SECURITY in names and not _run(SECURITY, *_options(arguments, suffix=".security.json")):
        failed.append(SECURITY)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="less of everything, in one round")
    parser.add_argument("--without-kafka", action="store_true", help="measure ours only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to this file")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)} (there are {', '.join(BENCHMARKS)})")
    return arguments


def _options(arguments: argparse.Namespace, suffix: str = "") -> list[str]:
    flags = [flag for flag in ("--quick", "--without-kafka") if getattr(arguments, flag[2:].replace("-", "_"))]
    if arguments.json is None:
        return flags
    return [*flags, "--json", str(arguments.json.with_suffix(suffix) if suffix else arguments.json)]


def _run(name: str, *options: str) -> bool:
    print(f"\n== {name}", flush=True)
    script = Path(__file__).with_name(f"{name}.py")
    return subprocess.run([sys.executable, script, *options], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
