"""The definitions of the cluster studies, each a function from cells to a small table.

``cells`` are those of :mod:`gpulint_audit.cells`, with runs; answers have a row per series (job_id, series) or job.
Seconds are GPU-seconds unless said otherwise. Nothing is counted for time without samples.
"""
