"""Where paths lead."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpulint.transfers.storage import Location, Storage, StorageLocations, storage_of
from tests.trees import Tree


@pytest.mark.parametrize(
    ("path", "storage"),
    [
        ("s3://bucket/run", Storage.REMOTE),
        ("abfss://box@account.dfs.core.windows.net/x", Storage.REMOTE),
        ("https://host/file", Storage.REMOTE),
        ("file:///tmp/x", Storage.LOCAL),
        ("/mnt/blob/run", Storage.REMOTE),
        ("/gpfs/alpine/run", Storage.REMOTE),
        ("/mnt/team-nfs2/run", Storage.REMOTE),
        ("/mnt/cephfs/run", Storage.REMOTE),
        ("/mnt/lab_2/run", Storage.UNKNOWN),
        ("/mnt/netta/run", Storage.UNKNOWN),
        ("/mnt/nvme0/run", Storage.UNKNOWN),
        ("/mnt/local_ssd/run", Storage.UNKNOWN),
        ("/mnt/c/Users", Storage.UNKNOWN),
        ("/tmp/run", Storage.LOCAL),
        ("/tmpfiles/run", Storage.UNKNOWN),
        ("$SLURM_TMPDIR/run", Storage.LOCAL),
        ("$AMLT_OUTPUT_DIR/run", Storage.REMOTE),
        ("$HOME/run", Storage.UNKNOWN),
        ("checkpoints/run", Storage.UNKNOWN),
        ("", Storage.UNKNOWN),
    ],
)
def test_a_written_path(path: str, storage: Storage) -> None:
    assert storage_of(path) is storage


def test_prefixes_from_the_settings_end_at_a_folder() -> None:
    assert storage_of("/team/shared/x", ["/team/shared"]) is Storage.REMOTE
    assert storage_of("/team/shared", ["/team/shared/"]) is Storage.REMOTE
    assert storage_of("/team/sharedness", ["/team/shared"]) is Storage.UNKNOWN


def locate(tmp_path: Path, code: str) -> Location:
    """Location of the last statement's expression."""
    made = Tree(tmp_path, {"main.py": code})
    last = made.module().syntax.tree.body[-1]
    assert isinstance(last, ast.Expr)
    return made.project.fact(StorageLocations).of(made.module(), last.value)


@pytest.mark.parametrize(
    ("code", "storage"),
    [
        ("import os\nroot = 's3://bucket'\nos.path.join(root, name())", Storage.REMOTE),
        ("from pathlib import Path\nroot = Path('/mnt/blob')\nroot / 'x' / f'{step()}.pt'", Storage.REMOTE),
        ("root = '/gpfs/run'\nf'{root}/{step()}.pt'", Storage.REMOTE),
        ("import os\nos.path.join(os.environ['AMLT_OUTPUT_DIR'], 'x')", Storage.REMOTE),
        ("import tempfile, os\nos.path.join(tempfile.mkdtemp(), 'x')", Storage.LOCAL),
        ("import io\nbuffer = io.BytesIO()\nbuffer", Storage.LOCAL),
        ("path = '/tmp/a' if local() else 's3://b'\npath", Storage.REMOTE),
        ("path = '/tmp/a' if local() else other()\npath", Storage.UNKNOWN),
        ("path = download('s3://bucket/x')\npath", Storage.UNKNOWN),
        ("args.out", Storage.UNKNOWN),
    ],
)
def test_an_expression(tmp_path: Path, code: str, storage: Storage) -> None:
    assert locate(tmp_path, code).storage is storage


def test_the_place_is_where_the_path_is_set(tmp_path: Path) -> None:
    code = (
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--out', default='s3://bucket/run')\nargs = p.parse_args()\nargs.out"
    )
    found = locate(tmp_path, code)
    assert found.place is not None
    assert (found.text, found.place.span.line) == ("s3://bucket/run", 3)
