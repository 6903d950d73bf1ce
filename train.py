import argparse
from pytorch_lightning import Trainer
from data import Data
from net import Net

parser = argparse.ArgumentParser()
parser.add_argument("--folder")
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--num_workers", type=int, default=0)
args = parser.parse_args()
data = Data(**vars(args))
Trainer(accelerator="gpu", max_epochs=9).fit(Net(), data)
