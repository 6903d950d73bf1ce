import stage
import torch
from common_job import model, optimizer

stage.kernel(0)  # importing torch is no launch
for step in stage.steps(4):
    x = torch.zeros(4, 64)
    for layer in model:
        x = torch.nn.functional.gelu(layer(x))
        stage.kernel(0.4, sm=60)
    loss = torch.nn.functional.mse_loss(x, torch.zeros(4, 64))
    loss.backward()
    for _ in range(4):
        optimizer.step()
        stage.kernel(0.4, sm=60)
