"""The same questions on Spark, for fleets whose samples lie in a data lake. Tested in local mode against DuckDB."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import ibis
from pyspark.sql import SparkSession


@contextlib.contextmanager
def local(master: str | None = None) -> Iterator[Any]:
    """A connection to Spark: a session that is there, or one on this machine (SPARK_MASTER is not read)."""
    folder = tempfile.mkdtemp(prefix="gpulint-audit-")
    active = SparkSession.getActiveSession()
    session = active or (
        SparkSession.builder.master(master or "local[2]")
        .appName("gpulint audit")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.ansi.enabled", "false")
        .config("spark.sql.warehouse.dir", folder)
        .getOrCreate()
    )
    try:
        yield ibis.pyspark.connect(session)
    finally:
        if active is None:
            session.stop()
        shutil.rmtree(folder, ignore_errors=True)
