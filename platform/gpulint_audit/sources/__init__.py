"""Where jobs and samples come from: folders, Prometheus, Slurm, recordings of the probe."""
