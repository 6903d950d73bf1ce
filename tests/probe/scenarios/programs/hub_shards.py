import os
import shutil
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from slow_storage import serve

SHARDS = [f"model-{number:05}-of-00006.safetensors" for number in range(1, 7)]


def snapshot_download(hub, folder):
    """All files of a model, two at a time, as a client of a model hub gets them."""

    def fetch(name):
        with urllib.request.urlopen(hub + "/150") as response, open(os.path.join(folder, name), "wb") as file:
            shutil.copyfileobj(response, file)

    with ThreadPoolExecutor(2) as pool:
        for done, _ in enumerate(pool.map(fetch, SHARDS), 1):
            percent = 100 * done // len(SHARDS)
            print(f"\rFetching {len(SHARDS)} files: {percent}%|", f"| {done}/{len(SHARDS)}", end="", file=sys.stderr)


with tempfile.TemporaryDirectory() as folder:
    snapshot_download(serve(), folder)
import stage
from plain_job import train_step

for step in range(100):
    train_step(gpu_s=0.04)
    stage.throttle(0.5)
stage.Value().item()
