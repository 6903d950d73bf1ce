"""Script mode: run a training script unchanged in a child process, without a GPU, and record what it would do."""
