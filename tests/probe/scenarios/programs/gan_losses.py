import stage
import torch
from torch import nn

torch.set_num_threads(1)
generator = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())
critic = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
optimizer_g = torch.optim.SGD(generator.parameters(), lr=1e-3)
optimizer_c = torch.optim.SGD(critic.parameters(), lr=1e-3)
curves = {"critic": [], "generator": []}


def update(loss, optimizer):
    """Queue one update; its kernels take longer than their launches, once the previous loss has been read."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    stage.kernel(0.65, sm=88)
    return stage.Value()


stage.kernel(0)
for step in stage.steps(6):
    fake = generator(torch.randn(16, 16))
    loss = update(critic(fake.detach()).mean() - critic(torch.randn(16, 64)).mean(), optimizer_c)
    curves["critic"].append(loss.item())
    loss = update(-critic(generator(torch.randn(16, 16))).mean(), optimizer_g)
    curves["generator"].append(loss.item())
