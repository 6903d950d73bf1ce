import two_ranks

two_ranks.main(__file__)
import stage
import torch
import torch.distributed as dist

torch.set_num_threads(1)
rank = two_ranks.join()
model = torch.nn.Sequential(*(torch.nn.Linear(1500, 1500) for _ in range(5)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)


def average_gradients(parameters):
    handles = [dist.all_reduce(parameter.grad, async_op=True) for parameter in parameters]
    for handle in handles:
        handle.wait()
    for parameter in parameters:
        parameter.grad /= dist.get_world_size()


for step in range(9):
    for micro_batch in torch.zeros(4, 2, 1500):
        model(micro_batch).square().mean().backward()
        stage.work(0.03)
        average_gradients(list(model.parameters()))  # which once for each step would do
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
two_ranks.leave()
