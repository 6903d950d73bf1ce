import two_ranks

two_ranks.main(__file__)
import stage
import torch
import torch.distributed as dist
from common_job import model, optimizer

rank = two_ranks.join()
parts = [torch.zeros(1_500_000) for _ in range(4)]


def synchronize_gradients():
    for part in parts:
        dist.all_reduce(part)
        dist.barrier()


for step in range(400):
    stage.kernel(0)
    loss = model(torch.zeros(32, 64)).square().mean()
    loss.backward()
    stage.kernel(0.9, sm=92)
    synchronize_gradients()
    optimizer.step()
    optimizer.zero_grad()
two_ranks.leave()
