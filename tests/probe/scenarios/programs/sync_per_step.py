import time

import stage
from plain_job import forward, train_step

took = 0.012
for step in stage.steps(4):
    loss = train_step(gpu_s=took, sm=80)  # as long as the launches, however fast the CPU is
    loss.item()
    start = time.monotonic()
    forward(0.012)  # more launches, for which the GPU waits
    took = time.monotonic() - start
