"""A policy is cloned from recorded drives, and after every hundred updates it drives by itself to see how far it gets."""

import math

import stage
import torch
from torch import nn

torch.set_num_threads(1)


class Road:
    """A car on a winding road: the state is its offset, its heading, its speed and the next curves."""

    def __init__(self, seed):
        self.seed, self.time, self.offset, self.heading, self.speed = seed, 0.0, 0.0, 0.0, 8.0

    def curve(self, ahead):
        place = self.time * self.speed + ahead
        return sum(math.sin(place / scale + self.seed * scale) / scale for scale in (7.0, 19.0, 43.0))

    def look(self):
        return [self.offset, self.heading, self.speed / 10, *(self.curve(ahead) for ahead in range(0, 60, 4))]

    def drive(self, wheel, pedal, substeps=40):
        """A tenth of a second."""
        for _ in range(substeps):
            self.time += 0.1 / substeps
            self.heading += (wheel * self.speed / 3 - self.curve(0)) * 0.1 / substeps
            self.offset += math.sin(self.heading) * self.speed * 0.1 / substeps
            self.speed += (pedal - 0.01 * self.speed) * 0.1 / substeps
        return abs(self.offset) < 400


def autonomy(policy, roads=32, longest=150):
    """Mean tenths of a second that the policy stays on the road."""
    policy.eval()
    lasted = []
    with torch.no_grad():
        for seed in range(roads):
            road, alive, tenths = Road(seed), True, 0
            while alive and tenths < longest:
                wheel, pedal = policy(torch.tensor([road.look()]))[0].tolist()
                stage.work(0.00001, sm=2)
                alive = road.drive(math.tanh(wheel), math.tanh(pedal))
                tenths += 1
            lasted.append(tenths)
    policy.train()
    return sum(lasted) / len(lasted)


policy = nn.Sequential(nn.Linear(18, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, 2))
optimizer = torch.optim.Adam(policy.parameters())
states, actions = torch.randn(4096, 18), torch.rand(4096, 2)
for update in range(1000):
    rows = torch.randint(len(states), (128,))
    loss = nn.functional.mse_loss(policy(states[rows]), actions[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    stage.work(0.003, sm=88)
    stage.throttle()
    if update % 100 == 99:
        print(f"update {update}: {autonomy(policy):.1f} tenths on the road", flush=True)
