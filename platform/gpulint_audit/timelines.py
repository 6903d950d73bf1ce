"""How the GPUs of a few jobs were used over time, for the pages of a report."""

from __future__ import annotations

from typing import Any

import ibis

from gpulint_audit.answers import Row
from gpulint_audit.cells import cells
from gpulint_audit.parameters import EPSILON, Parameters
from gpulint_audit.tables import SERIES
from gpulint_audit.verdicts import Verdict

BUCKETS = 160


def timelines(
    connection: Any, found: list[Verdict], parameters: Parameters
) -> dict[int, dict[tuple[str, str], list[Row]]]:
    """By number of the job and (node, gpu): buckets of the job's life in which samples begin, each with its place (0 to
    BUCKETS - 1), ``until`` (the last bucket that they reach), mean utilization and mean memory. Empty for jobs without
    samples."""
    if "audit_samples" not in connection.list_tables() or not found:
        return {}
    numbers = [verdict.number for verdict in found]
    samples, keys = connection.table("audit_samples"), connection.table("audit_jobs").drop("job")
    wanted = ["gpu_utilization", *(["gpu_memory_bytes"] if "gpu_memory_bytes" in samples.columns else [])]
    chosen = samples.filter(samples.job_id.isin(numbers)).select(*SERIES, "timestamp", *wanted)
    ends = ibis.memtable([{"job_id": verdict.number, "ends": verdict.end} for verdict in found])
    placed = cells(chosen, keys, parameters).inner_join(ends, "job_id")
    length = (placed.ends - placed.life_start) / BUCKETS
    place = ibis.least(((placed.start - placed.life_start) / length).floor(), BUCKETS - 1).cast("int64")
    reach = ((placed.end - placed.life_start - EPSILON) / length).floor().cast("int64")
    bucketed = placed.mutate(place=place, reach=ibis.least(reach, BUCKETS - 1))
    used, seconds = bucketed.gpu_utilization, bucketed.seconds
    figures = {"utilization": (used * seconds).sum() / seconds.sum(where=used.notnull()), "until": bucketed.reach.max()}
    if "gpu_memory_bytes" in wanted:
        held = bucketed.gpu_memory_bytes
        figures["memory"] = (held * seconds).sum() / seconds.sum(where=held.notnull())
    known = connection.table("audit_places").filter(ibis._.job_id.isin(numbers)).to_pyarrow().to_pylist()
    places = {row["series"]: (row["node"], row["gpu"]) for row in known}
    answer: dict[int, dict[tuple[str, str], list[Row]]] = {}
    for row in bucketed.group_by([*SERIES, "place"]).aggregate(**figures).order_by("place").to_pyarrow().to_pylist():
        answer.setdefault(row["job_id"], {}).setdefault(places[row["series"]], []).append(row)
    return answer
