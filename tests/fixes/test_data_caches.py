"""Copies of remote data on the node: each file is fetched once, and what may change or clash is left alone."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from gpulint.fix import Fix
from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

JOB = """\
#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --tmp=400G
cp settings.json $TMPDIR
python train.py {arguments}
"""
STORE = """\
import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class Store(MemoryFileSystem):
    protocol = "s3"
    store, pseudo_dirs = {}, [""]

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.removeprefix("s3:/"))

    def _open(self, path, mode="rb", **kwargs):
        if mode == "rb":
            print("fetched", path)
        return super()._open(path, mode, **kwargs)


fsspec.register_implementation("s3", Store)
bucket = Store()
for number in range(3):
    bucket.pipe(f"/bucket/{number}.csv", f"value\\n{number}\\n".encode())
"""
READS = {
    "an address": 'fsspec.open(f"s3://bucket/{index}.csv")',
    "a text that is put together": 'fsspec.open("s3://bucket/" + str(index) + ".csv")',
    "a file system": 'files.open(f"s3://bucket/{index}.csv")',
}
TRAIN = """\
import fsspec
from store import bucket

files = fsspec.filesystem("s3")


class Items:
    def __getitem__(self, index):
        with {read} as file:
            return file.read()


items = Items()
for epoch in range(2):
    for index in range(3):
        print(items[index])
if not bucket:
    model.cuda().train()
    loss.backward()
"""


@pytest.mark.parametrize("read", READS)
def test_each_file_is_fetched_once(job: MakeJob, read: str) -> None:
    pytest.importorskip("fsspec")
    made = job(
        {"store.py": STORE, "train.py": TRAIN.replace("{read}", READS[read]), "job.sh": JOB.format(arguments="")}
    )
    before, _ = made.run("train.py")
    assert made.repair("GPU321") == 1
    after, _ = made.run("train.py")
    lines, kept = before.splitlines(), after.splitlines()
    assert sum(line.startswith("fetched") for line in lines) == 6
    assert sum(line.startswith("fetched") for line in kept) == 3
    assert [line for line in kept if line[:2] == "b'"] == [line for line in lines if line[:2] == "b'"]
    assert len(list((made.root / "train-cache").iterdir())) == 3


def test_archives_whose_files_have_the_same_names_are_kept_apart(job: MakeJob) -> None:
    pytest.importorskip("fsspec")
    store = (
        STORE
        + """
import io, zipfile
for part in ("train", "valid"):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as inside:
        for number in range(3):
            inside.writestr(f"{number}.csv", f"{part}{number}")
    bucket.pipe(f"/bucket/{part}.zip", archive.getvalue())
"""
    )
    read = 'fsspec.open(f"zip://{index}.csv::s3://bucket/{self.part}.zip")'
    train = TRAIN.replace("{read}", read).replace(
        "class Items:", "class Items:\n    def __init__(self, part):\n        self.part = part\n"
    )
    train = train.replace("Items()", 'Items("train"), Items("valid")').replace(
        "print(items[index])", "print([one[index] for one in items])"
    )
    made = job({"store.py": store, "train.py": train, "job.sh": JOB.format(arguments="")})
    before, _ = made.run("train.py")
    assert made.repair("GPU321") == 1
    assert '"zip://{index}.csv::simplecache::s3://bucket/{self.part}.zip"' in made.text("train.py")
    after, _ = made.run("train.py")
    assert [line for line in after.splitlines() if line[:1] == "["] == [
        line for line in before.splitlines() if line[:1] == "["
    ]
    assert after.count("fetched") == 2
    assert made.scan("GPU321") == []


RANKS = """\
import fsspec
import torch
from torch.nn.parallel import DistributedDataParallel


class Items(torch.utils.data.Dataset):
    def __getitem__(self, index):
        with fsspec.open(f"s3://bucket/{index}.csv") as file:
            return file.read()


START
model = DistributedDataParallel(torch.nn.Linear(3, 3).cuda())
model(Items()[0]).sum().backward()
"""


@pytest.mark.parametrize(
    ("start", "variable"),
    [
        ('torch.distributed.init_process_group("nccl")', "LOCAL_RANK"),
        ('torch.distributed.init_process_group("nccl", rank=int(os.environ["SLURM_PROCID"]))', "SLURM_LOCALID"),
    ],
)
def test_no_process_reads_what_another_one_has_not_copied_yet(job: MakeJob, start: str, variable: str) -> None:
    made = job({"train.py": f"import os\n\n{RANKS.replace('START', start)}"})
    fix = made.offer("GPU321")
    assert f"/tmp/train-cache-${variable} on the node" in fix.description
    assert "as all files that are read, for each process" in fix.description
    assert made.repair("GPU321") == 1
    assert f'{{"cache_storage": "/tmp/train-cache-" + os.environ.get("{variable}", "0")}}' in made.text("train.py")


def test_a_launcher_of_several_processes_gives_each_its_folder(job: MakeJob) -> None:
    text = RANKS.replace("from torch.nn.parallel import DistributedDataParallel\n", "").replace("START", "")
    text = text.replace("DistributedDataParallel(torch.nn.Linear(3, 3).cuda())", "torch.nn.Linear(3, 3).cuda()")
    launch = "#!/bin/bash\n#SBATCH --gres=gpu:8\ntorchrun --nproc-per-node=8 train.py\n"
    fix = job({"train.py": f"import os\n\n{text}", "job.sh": launch}).offer("GPU321")
    assert "/tmp/train-cache-$LOCAL_RANK on the node" in fix.description


def test_processes_that_the_program_starts_have_no_folders_of_their_own(job: MakeJob) -> None:
    made = job({"train.py": RANKS.replace("START", "torch.multiprocessing.spawn(main, nprocs=8)")})
    assert "unfinished copies" in made.refusal("GPU321")


def test_two_readers_of_one_address_keep_it_in_two_folders(job: MakeJob) -> None:
    made = job(
        {
            "train.py": """\
            import torch
            from streaming import StreamingDataset

            data = StreamingDataset(remote="s3://bucket/images", local="/mnt/nfs/images/one")
            plain = StreamingDataset(remote="s3://bucket/images", local="/mnt/nfs/images/two")
            model = torch.nn.Linear(3, 3).cuda()
            for epoch in range(10):
                for batch in data:
                    model(batch).sum().backward()
            """
        }
    )
    assert made.repair("GPU321") == 2
    text = made.text("train.py")
    assert 'local="/tmp/train-cache-bucket-images-1"' in text
    assert 'local="/tmp/train-cache-bucket-images-2"' in text


def test_a_file_of_each_round_is_no_file_that_changes(job: MakeJob) -> None:
    made = job(
        {
            "train.py": """\
            import pandas as pd
            import torch

            model = torch.nn.Linear(3, 3).cuda()
            for epoch in range(10):
                for part in range(64):
                    address = f"s3://bucket/{part:05}" + ".parquet"
                    table = pd.read_parquet(f"s3://bucket/{part:05}.parquet", columns=["a", "b", "c"])
                    model(torch.tensor(table.values).cuda()).sum().backward()
            """
        }
    )
    assert made.repair("GPU321") == 1
    assert 'f"simplecache::s3://bucket/{part:05}.parquet",\n' in made.text("train.py")


SHARDS = """\
import argparse

import torch
import webdataset as wds

parser = argparse.ArgumentParser()
parser.add_argument("--data")
args = parser.parse_args()
model = torch.nn.Linear(3, 3).cuda()
data = wds.WebDataset(args.data{more})
for epoch in range(10):
    for batch in data:
        model(batch).sum().backward()
"""


def test_the_description_says_what_space_is_needed(job: MakeJob) -> None:
    made = job({"train.py": SHARDS.format(more=""), "job.sh": JOB.format(arguments="--data 's3://b/{000..119}.tar'")})
    fixes = [result.fix for result in made.scan("GPU321")]
    assert len(fixes) == 1
    assert isinstance(fixes[0], Fix)
    assert "$TMPDIR/train-cache on the node" in fixes[0].description
    assert "as much space as all 120 shards, of which a job requests 400G" in fixes[0].description


RECORDS = """\
import tensorflow as tf

data = tf.data.TFRecordDataset("gs://bucket/train.tfrecord")
with tf.device("/GPU:0"):
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
model.compile("adam", "mse")
model.fit(data.batch(64), epochs=10)
"""


@pytest.mark.parametrize(("line", "stays"), [("ls $SLURM_TMPDIR", False), ("ls $TMPDIR", True), ("ls", True)])
def test_the_description_says_whether_a_copy_stays_after_the_run(job: MakeJob, line: str, stays: bool) -> None:
    script = f"#!/bin/bash\n#SBATCH --gres=gpu:1\n{line}\npython train.py\n"
    (fix,) = (result.fix for result in job({"train.py": RECORDS, "job.sh": script}).scan("GPU321"))
    assert isinstance(fix, Fix)
    assert ("stays there afterwards where nothing cleans the folder" in fix.description) == stays


def test_the_disk_of_a_pod_goes_with_it(job: MakeJob) -> None:
    made = job({"train.py": RECORDS, "job.yaml": POD.replace(', "--data=s3://b/{000..119}.tar"', "")})
    (fix,) = (result.fix for result in made.scan("GPU321"))
    assert isinstance(fix, Fix)
    assert "stays there" not in fix.description


def test_shards_up_to_a_number_of_too_many_digits_are_not_counted(job: MakeJob) -> None:
    shards = f"s3://b/{{0..{'9' * 5000}}}.tar"
    made = job({"train.py": SHARDS.format(more=""), "job.sh": JOB.format(arguments=f"--data '{shards}'")})
    (fix,) = (result.fix for result in made.scan("GPU321"))
    assert isinstance(fix, Fix)
    assert "as much space as all files that are read" in fix.description


POD = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  template:
    spec:
      containers:
        - name: train
          image: train
          command: ["python", "train.py", "--data=s3://b/{000..119}.tar"]
          resources:
            limits:
              nvidia.com/gpu: 1
              ephemeral-storage: 200Gi
"""


def test_a_pod_has_a_disk_of_its_own_and_no_cache_is_none(job: MakeJob) -> None:
    made = job({"train.py": SHARDS.format(more=", cache_dir=None, cache_size=10**11"), "job.yaml": POD})
    fix = next(result.fix for result in made.scan("GPU321"))
    assert isinstance(fix, Fix)
    assert "/tmp/train-cache on the node" in fix.description
    assert "as much space as `cache_size` allows, of which a job requests 200Gi" in fix.description
    assert made.repair("GPU321") == 1
    text = made.text("train.py")
    assert 'cache_dir = "/tmp/train-cache"\nos.makedirs(cache_dir, exist_ok=True)\ndata =' in text
    assert "cache_dir=cache_dir, cache_size=10**11" in text
    assert made.scan("GPU321") == []


def item(read: str, before: str = "") -> str:
    return f"""\
import fsspec
import pandas as pd
import smart_open
import torch


class Items(torch.utils.data.Dataset):
    def __getitem__(self, index):
        {before or "pass"}
        return decode({read})


train(Items(), device="cuda")
"""


SLURM = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --data {data}\n"
DECLINED = {
    "shards that another set in the same folder could share the names with": (
        {"train.py": SHARDS.format(more=""), "job.sh": SLURM.format(data="'s3://b/{000..119}.tar'")},
        "choose a folder for each set of shards",
    ),
    "shards of two folders with the same names": (
        {"train.py": SHARDS.format(more=""), "job.sh": JOB.format(arguments="--data 's3://b/{a,b}/000.tar'")},
        "would have one copy",
    ),
    "shards that are drawn at random": (
        {
            "train.py": SHARDS.format(more=", resampled=True"),
            "job.sh": JOB.format(arguments="--data 's3://b/{000..119}.tar'"),
        },
        "drawn at random",
    ),
    "files that the program writes": (
        {
            "train.py": item(
                'fsspec.open(f"s3://bucket/seen/{index}.jpg")',
                'fsspec.open(f"s3://bucket/seen/{index}.jpg", "wb").open().write(b"")',
            )
        },
        "writes files there",
    ),
    "a file that is read again in each epoch": (
        {
            "train.py": """\
            import fsspec
            import torch

            model = torch.nn.Linear(3, 3).cuda()
            for epoch in range(10):
                for batch in loader:
                    model(batch).sum().backward()
                names = fsspec.open("s3://bucket/hard.txt").open().read()
            """
        },
        "a file that changes",
    ),
    "a table that is unpacked by the end of its name": (
        {"train.py": item('pd.read_csv(f"s3://bucket/{index}.csv.gz")')},
        "end of its name",
    ),
    "a source that the library makes for each file": (
        {
            "train.py": """\
            import tensorflow as tf

            files = tf.data.Dataset.from_tensor_slices(["a", "b"])
            data = files.interleave(lambda name: tf.data.TFRecordDataset("gs://bucket/" + name)).batch(64)
            with tf.device("/GPU:0"):
                model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
            model.compile("adam", "mse")
            model.fit(data, epochs=10)
            """
        },
        "for each file",
    ),
    "records that are divided": (
        {
            "train.py": """\
            import tensorflow as tf

            data = tf.data.TFRecordDataset("gs://bucket/train.tfrecord")
            valid, data = data.take(1000), data.skip(1000)
            with tf.device("/GPU:0"):
                model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
            model.compile("adam", "mse")
            model.fit(data.batch(64), epochs=10, validation_data=valid.batch(64))
            """
        },
        "ends early",
    ),
    "records that are divided behind other steps": (
        {
            "train.py": """\
            import tensorflow as tf

            data = tf.data.TFRecordDataset("gs://bucket/train.tfrecord")
            data = tf.data.Dataset.zip((data, tf.data.Dataset.range(5000)))
            data = data.map(parse)
            valid, data = data.take(1000), data.skip(1000)
            with tf.device("/GPU:0"):
                model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
            model.compile("adam", "mse")
            model.fit(data.batch(64), epochs=10, validation_data=valid.batch(64))
            """
        },
        "ends early",
    ),
    "options of the storage": (
        {"train.py": item('pd.read_csv(f"s3://bucket/{index}.csv", storage_options={"anon": True})')},
        "options of the storage",
    ),
    "a library without a cache": (
        {"train.py": item('smart_open.open(f"s3://bucket/{index}.txt")')},
        "the library has no cache",
    ),
}


@pytest.mark.parametrize("case", DECLINED)
def test_what_may_change_or_clash_is_left_alone(job: MakeJob, case: str) -> None:
    files, reason = DECLINED[case]
    check_declined(job, "GPU321", {name: dedent(text) for name, text in files.items()}, reason)
