import two_ranks

two_ranks.main(__file__)
import time

import torch
import torch.distributed as dist
from common_job import train_step

rank = two_ranks.join()


class Tracker:
    """Sends figures to a server that answers late."""

    def report(self, figures):
        time.sleep(0.3)


tracker = Tracker()
gradient = torch.zeros(1000)
for step in range(80):
    loss = train_step(torch.zeros(8, 64), gpu_s=0.03).item()
    dist.all_reduce(gradient)
    if step % 8 == 7:
        if rank == 0:
            tracker.report({"loss": loss, "step": step})
        dist.barrier()
two_ranks.leave()
