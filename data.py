import PIL.Image
from torch.utils.data import DataLoader, Dataset
from pytorch_lightning import LightningDataModule


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return transform(PIL.Image.open(self.paths[index]))


class Data(LightningDataModule):
    def __init__(self, folder, batch_size=8, num_workers=0):
        super().__init__()
        self.folder = folder
        self.batch_size = batch_size
        self.num_workers = num_workers

    def train_dataloader(self):
        return DataLoader(Photos(self.folder), batch_size=self.batch_size, num_workers=self.num_workers)
