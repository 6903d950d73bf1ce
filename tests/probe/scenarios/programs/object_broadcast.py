import two_ranks

two_ranks.main(__file__)
import stage
import torch
import torch.distributed as dist
from common_job import model, optimizer

rank = two_ranks.join()
statistics = {f"unit{number}": [0.5] * 40 for number in range(3000)}
for step in range(60):
    stage.kernel(0)
    loss = model(torch.zeros(32, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    stage.kernel(0.9, sm=92)
    told = [None, None]
    dist.all_gather_object(told, statistics)
two_ranks.leave()
