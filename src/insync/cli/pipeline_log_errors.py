"""How jobs that read log directories report what is wrong with their options, with the files, or with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from insync.cli.exits import failure, usage_error
from insync.pipeline.spark_errors import SparkJobError, explain_job_failure
from insync.spark.option_values import OptionError


@contextmanager
def log_options_checked() -> Iterator[None]:
    """Exit code 2 for wrong options, 1 for directories that cannot be read."""
    try:
        yield
    except (OptionError, ValueError) as error:
        raise usage_error(str(error)) from None
    except OSError as error:
        raise failure(f"{error.filename} cannot be read: {error.strerror}") from None


@contextmanager
def spark_failures_reported() -> Iterator[None]:
    """Exit code 1 if a job on Spark fails."""
    try:
        yield
    except SparkJobError as error:
        raise failure(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise failure(f"Spark: {explain_job_failure(str(error))}") from None
