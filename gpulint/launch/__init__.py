"""How programs are started: scripts, job specs, launchers, schedulers, and the jobs that link them."""
