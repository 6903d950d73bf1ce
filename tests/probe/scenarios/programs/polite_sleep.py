"""A pause that was meant for debugging is still in the loop."""

import time

import stage
import torch
from common_job import train_step

for step in stage.steps(6):
    train_step(torch.zeros(8, 64), gpu_s=0.03, sm=92)
    stage.throttle(0.0)
    time.sleep(0.03)
