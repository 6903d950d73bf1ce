import io
import os
import subprocess
import tarfile
import tempfile

import torch
from common_job import train_step
from torch.utils.data import DataLoader, IterableDataset

# Prints a file like a download: ten kilobytes every fiftieth of a second.
FETCH = 'i=0; while [ $i -lt 200 ]; do dd if="$0" bs=10240 count=1 skip=$i status=none; sleep 0.02; i=$((i+1)); done'


class Shards(IterableDataset):
    """Samples of a tar archive that a command prints, as WebDataset's ``pipe:`` reads them."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with (
            subprocess.Popen(["sh", "-c", FETCH, self.path], stdout=subprocess.PIPE) as fetch,
            tarfile.open(fileobj=fetch.stdout, mode="r|") as archive,
        ):
            for member in archive:
                sample = archive.extractfile(member).read()
                yield torch.frombuffer(bytearray(sample[:256]), dtype=torch.float32)


def pack(path):
    with tarfile.open(path, "w") as archive:
        for number in range(250):
            member = tarfile.TarInfo(f"{number:06}.jpg")
            member.size = 7000
            archive.addfile(member, io.BytesIO(bytes(7000)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "shard.tar")
        pack(path)
        for batch in DataLoader(Shards(path), batch_size=8, num_workers=2):
            train_step(batch)
