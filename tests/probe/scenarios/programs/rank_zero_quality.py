import two_ranks

two_ranks.main(__file__)
import stage
import torch
import torch.distributed as dist
from common_job import model, train_step

rank = two_ranks.join()
held_out = [torch.randn(8, 64) for _ in range(25)]


def quality(network):
    network.eval()
    total = 0.0
    with torch.inference_mode():
        for images in held_out:
            total += network(images).mean()
            stage.work(0.03)
            stage.Value().item()
    network.train()
    return total / len(held_out)


gradient = torch.zeros(1000)
for step in range(60):
    train_step(torch.zeros(8, 64), gpu_s=0.03).item()
    dist.all_reduce(gradient)
    if step % 15 == 14 and rank == 0:
        print(f"quality {float(quality(model)):.3f}", flush=True)
two_ranks.leave()
