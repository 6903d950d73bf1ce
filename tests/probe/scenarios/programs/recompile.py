import stage
import torch

torch.set_num_threads(1)
torch._dynamo.config.recompile_limit = 10_000
torch._dynamo.config.accumulated_recompile_limit = 10_000
model = torch.nn.Sequential(
    torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 32), torch.nn.Softmax(-1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
compiled = torch.compile(model, backend="eager", dynamic=False)
compiled(torch.zeros(2, 8, 32))
stage.kernel(0)
for step in stage.steps(8):
    sentences = torch.zeros(2, 9 + step, 32)  # never the same length twice
    compiled(sentences).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    stage.kernel(0.35)
