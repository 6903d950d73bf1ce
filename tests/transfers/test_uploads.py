"""Calls that send files and wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpulint.transfers.uploads import Uploads
from tests.trees import Tree

MakeTree = Callable[..., Tree]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import mlflow as m\nm.log_artifact('last.pt')", "mlflow.log_artifact"),
        ("from mlflow import log_artifacts\nlog_artifacts('out')", "mlflow.log_artifacts"),
        ("s3 = boto3.client('s3')\ns3.upload_file('a', 'bucket', 'b')", "s3.upload_file"),
        ("model.push_to_hub('org/name')", "model.push_to_hub"),
        ("blob.upload_from_filename('a')", "blob.upload_from_filename"),
        ("import os\nos.system('gsutil -m cp -r out gs://bucket/out')", "gsutil"),
        ("import subprocess\nsubprocess.run(['aws', 's3', 'cp', path, f's3://{bucket}/x'])", "aws"),
        ("import os\nos.system('azcopy copy out \"https://account/out\"')", "azcopy"),
        ("import shutil\nshutil.copy('a', 's3://bucket/a')", "copy to remote storage"),
    ],
)
def test_an_upload_is_named(tree: MakeTree, code: str, name: str) -> None:
    made = tree(code)
    assert [upload.name for upload in Uploads(made.project).in_module(made.module())] == [name]


@pytest.mark.parametrize(
    "code",
    [
        "import wandb\nwandb.log({'loss': 1})",
        "import wandb\nwandb.save('last.pt')",
        "import wandb\nrun = wandb.init()\nrun.log_artifact(wandb.Artifact('model', 'model'))",
        "import mlflow\nmlflow.set_tracking_uri('file:./mlruns')\nmlflow.log_artifact('last.pt')",
        "import shutil\nshutil.copy('a', '/tmp/a')",
        "import os\nos.system('gsutil cp gs://bucket/data .')",
        "import os\nos.system('aws s3 cp --recursive s3://bucket/data .')",
        "import os\nos.system('azcopy copy \"https://account/data\" /scratch')",
        "ftp.upload_file('a')",
        "model.push_to_hub('org/name', blocking=False)",
        "api.upload_folder(folder_path='out', run_as_future=True)",
        "def send():\n    s3.upload_file('a', 'b', 'c')\npool.submit(send)",
        "def send():\n    s3.upload_file('a', 'b', 'c')\nThread(target=send).start()",
    ],
)
def test_what_is_no_upload_or_does_not_wait(tree: MakeTree, code: str) -> None:
    made = tree(code)
    assert list(Uploads(made.project).in_module(made.module())) == []


def test_a_method_of_the_tree_counts_where_it_sends(tree: MakeTree) -> None:
    made = tree(
        "class Api:\n    def upload_file(self, path):\n        client.put_object(Body=path)\n"
        "api = Api()\napi.upload_file('a')\n"
    )
    assert [upload.name for upload in Uploads(made.project).in_module(made.module())] == ["client.put_object"]
