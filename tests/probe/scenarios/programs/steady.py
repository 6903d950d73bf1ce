import io

import stage
import torch
from common_job import burn, model, train_step
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    """Samples of which the loader processes make more than the GPU takes."""

    def __len__(self):
        return 4 * 80

    def __getitem__(self, index):
        burn(0.002)
        return torch.zeros(64)


@torch.no_grad()
def validate():
    for _ in range(6):
        model(torch.zeros(8, 64))
        stage.work(0.1, sm=94)
        stage.throttle(1.0)


if __name__ == "__main__":
    for step, batch in enumerate(DataLoader(Images(), batch_size=4, num_workers=2)):
        train_step(batch, gpu_s=0.12, sm=94)
        stage.throttle(1.0)
        if step % 20 == 19:
            stage.Value().item()
            print(f"step {step}", flush=True)
            torch.save(model.state_dict(), io.BytesIO())
            validate()
    stage.Value().item()
