"""Values behind objects that are filled from dictionaries, files and defaults, and behind dictionaries of keywords."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.values.constants import Constants
from tests.trees import Tree

YAML = "lr: 0.1\ntrain:\n  batch_size: 64\nmodel:\n  name: org/large\n"
CLASSES = """
import yaml
from dataclasses import asdict, dataclass, field
from typing import Optional
from pydantic import BaseModel, Field

@dataclass
class Train:
    batch_size: int = 4
    workers: int = 2

@dataclass
class Config:
    train: Train = field(default_factory=Train)
    wide: Train = field(default_factory=lambda: Train(batch_size=32))
    lr: float = 1.0

class Model(BaseModel):
    name: str = "org/small"
    depth: int = 12

class Settings(BaseModel):
    train: Train
    model: Optional[Model] = Field(description="what is trained")
    other: "int | None" = None

def load(path):
    with open(path) as file:
        return yaml.safe_load(file)

"""


def constants(root: Path, code: str) -> list[object]:
    """Known constants of what ``look`` gets; ``...`` stands for "and something unknown"."""
    tree = Tree(root, {"main.py": CLASSES + code, "conf/train.yaml": YAML})
    module = tree.module()
    (call,) = module.calls_by_name["look"]
    known = tree.project.fact(Constants).of(module, call.args[0])
    return sorted(known.constants, key=repr) + ([...] if known.unknown else [])


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(cfg: Config):\n    look(cfg.train.batch_size)", [4]),
        ("def f(cfg: Config):\n    look(cfg.wide.batch_size)", [32]),
        ("def f(cfg: Config):\n    look(cfg.wide.workers)", [2]),
        ("def f(cfg: Optional[Settings]):\n    look(cfg.model.depth)", [12]),
        ("look(Config(train=Train(batch_size=8)).train.batch_size)", [8]),
        ("look(Config(**load('conf/train.yaml')).lr)", [0.1, 1.0]),
        ("look(Settings(**load('conf/train.yaml')).model.name)", ["org/large", "org/small"]),
        ("look(Settings.model_validate(load('conf/train.yaml')).model.name)", ["org/large", "org/small"]),
        ("look(Settings(**load('conf/train.yaml')).model.depth)", [12]),
        ("look(Settings(**load(somewhere)).model.name)", ["org/large", "org/small"]),
        ("look(Settings(**load(somewhere)).model.depth)", [12]),
        ("look(Config(**load(somewhere)).lr)", [0.1, 1.0]),
        ("data = load(somewhere)\nlook(Config(**{k: v for k, v in data.items() if k in known}).lr)", [0.1, 1.0]),
        ("look(Train(**load('conf/train.yaml')['train']).batch_size)", [4, 64]),
        ("look(asdict(Train(batch_size=8))['batch_size'])", [8]),
        (
            "class Own(Config):\n    @classmethod\n    def make(cls):\n        return cls(lr=3.0)\nlook(Own.make().lr)",
            [3.0],
        ),
    ],
)
def test_objects(tmp_path: Path, code: str, expected: list[object]) -> None:
    assert constants(tmp_path, code) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(n=4):\n    look(n)\nf(**{'n': 8})", [8]),
        ("def f(n=4):\n    look(n)\nf(**{'m': 8})", [4]),
        ("options = {'n': 8}\ndef f(n=4):\n    look(n)\nf(**options)", [8]),
        ("options = {'m': 8}\ndef f(n=4):\n    look(n)\nf(**options)", [4]),
        ("options = {'m': 8}\noptions.update(more)\ndef f(n=4):\n    look(n)\nf(**options)", [...]),
        ("config = {'loader': {'n': 8}}\ndef f(n=4):\n    look(n)\nf(**config['loader'])", [8]),
        ("def f(batch_size=4):\n    look(batch_size)\nf(**load('conf/train.yaml')['train'])", [64]),
        ("def f(n=4):\n    look(n)\nf(**nobody['loader'])", [...]),
        ("def f(**kwargs):\n    look(kwargs['n'])\nf(n=8)", [8]),
        ("def f(**kwargs):\n    look(kwargs.get('n', 4))\nf(n=8)", [8]),
        ("def f(**kwargs):\n    look(kwargs.get('n', 4))\nf(n=8)\nf()", [4, 8]),
        ("def f(**kwargs):\n    look(kwargs.get('n', 4))\nf(m=8)", [4]),
        ("def f(**kwargs):\n    look(kwargs.pop('n', 4))\nf(n=unknown)", [...]),
        ("def f(**kwargs):\n    g(**kwargs)\ndef g(n=4):\n    look(n)\nf(n=8)", [8]),
        ("base = {'n': 8}\nlook({**base, 'm': 1}['n'])", [8]),
        ("base = {'n': 8}\nlook(({'n': 4} | base)['n'])", [4, 8]),
        ("base = dict(n=8)\nlook(base.copy()['n'])", [8]),
        ("look(getattr(Config(lr=2.0), 'lr', 4))", [2.0]),
        ("look(getattr(nobody, 'width', 4))", [4]),
        ("look(getattr(nobody, 'lr', 4))", [...]),
        ("look(nobody.get('lr', 4))", [...]),
        ("look(nobody.get('width', 4))", [4]),
        ("SETS = {'a': {'n': 8}, 'b': {'n': 16}}\nlook(SETS[nobody]['n'])", [16, 8]),
        ("SETS = {'a': 8, 'b': 16}\nlook(SETS[nobody])", [...]),
        ("IDS = {'a': 'org/a', 'b': 'org/b'}\nlook(IDS[nobody])", ["org/a", "org/b"]),
        ("IDS = {'a': 'org/a', 'b': unknown}\nlook(IDS[nobody])", [...]),
    ],
)
def test_dictionaries(tmp_path: Path, code: str, expected: list[object]) -> None:
    assert constants(tmp_path, code) == expected


ENV = "# training\nSFT_MODEL='org/large' # the model\nexport SFT_SIZE=16\nSFT_PATH=$HOME/x\nBATCH=8\n"
ENV += "MAX_TOKENS=512\nHF_TOKEN=hf_abc\nAPI_KEY=8\nSTORE=s3://me:pass@host/data\nBUCKET=s3://data\n"
SETTINGS = """
import os
from dotenv import load_dotenv
from pydantic_settings import BaseSettings, SettingsConfigDict

class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_file=".env.train", env_prefix="SFT_")
    model: str
    size: int = 4
    path: str
    other: int = 2

class Old(BaseSettings):
    sft_size: int = 4
    class Config:
        env_file = ".env.train"

class Bare(BaseSettings):
    size: int = 4

"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("look(Settings().model)", ["org/large"]),
        ("look(Settings().size)", [16]),
        ("look(Settings().path)", [...]),
        ("look(Settings().other)", [2]),
        ("look(Old().sft_size)", [16]),
        ("look(Bare().size)", [4]),
        ("load_dotenv('.env.train')\nlook(int(os.environ['BATCH']))", [8]),
        ("load_dotenv('.env.train')\nlook(int(os.getenv('BATCH', 2)))", [2, 8]),
        ("load_dotenv()\nlook(os.getenv('BATCH'))", [...]),
        ("load_dotenv('.env.train')\nlook(os.getenv('BUCKET'))", ["s3://data"]),
        ("load_dotenv('.env.train')\nlook(int(os.environ['MAX_TOKENS']))", [512]),
        ("load_dotenv('.env.train')\nlook(os.getenv('STORE'))", [...]),
        ("load_dotenv('.env.train')\nlook(os.getenv('HF_TOKEN'))", [...]),
        ("load_dotenv('.env.train')\nlook(int(os.environ['API_KEY']))", [...]),
    ],
)
def test_environment_files(tmp_path: Path, code: str, expected: list[object]) -> None:
    tree = Tree(tmp_path, {"src/main.py": SETTINGS + code, ".env.train": ENV})
    module = tree.module("src/main.py")
    (call,) = module.calls_by_name["look"]
    known = tree.project.fact(Constants).of(module, call.args[0])
    assert sorted(known.constants, key=repr) + ([...] if known.unknown else []) == expected


def test_the_environment_of_a_job_replaces_a_file(tmp_path: Path) -> None:
    job = "#!/bin/bash\n#SBATCH --gres=gpu:1\nexport SFT_SIZE=64\npython src/main.py\n"
    tree = Tree(tmp_path, {"src/main.py": SETTINGS + "look(Settings().size)", ".env.train": ENV, "run.sh": job})
    module = tree.module("src/main.py")
    (call,) = module.calls_by_name["look"]
    (value,) = tree.project.fact(Constants).of(module, call.args[0]).values
    assert (value.value, value.source) == (64, "launcher")


MODULE = """
class Data:
    def __init__(self, batch_size, workers=0, width=4, depth=1):
        look(NAME)

class Called:
    def __init__(self, batch_size):
        self.batch_size = batch_size

Called(2)
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [("batch_size", [128]), ("workers", [0, 7]), ("width", [4]), ("depth", [...]), ("Called(2).batch_size", [2])],
)
def test_parameters_that_configuration_files_pass(tmp_path: Path, name: str, expected: list[object]) -> None:
    hydra = "_target_: src.data.Data\nbatch_size: 128\nworkers: 7\ndepth: ${model.depth}\n"
    lightning = "data:\n  class_path: src.data.Data\n  init_args: {batch_size: 128}\n"
    other = "_target_: other.Data\nbatch_size: 1\n---\n"
    called = "_target_: src.data.Called\nbatch_size: 1\n"
    files = {"src/data.py": MODULE.replace("NAME", name), "conf/data/a.yaml": hydra, "conf/b.yaml": lightning}
    tree = Tree(tmp_path, {**files, "conf/c.yaml": other, "conf/d.yaml": called})
    module = tree.module("src/data.py")
    (call,) = module.calls_by_name["look"]
    known = tree.project.fact(Constants).of(module, call.args[0])
    assert sorted(known.constants, key=repr) + ([...] if known.unknown else []) == expected


def test_a_group_of_hydra_without_its_main_file(tmp_path: Path) -> None:
    files = {"conf/train/base.yaml": "batch_size: 8\n", "conf/eval/base.yaml": "batch_size: 64\n"}
    tree = Tree(tmp_path, {"main.py": "cfg = load()\nlook(cfg.train.batch_size)", **files})
    (call,) = tree.module().calls_by_name["look"]
    assert tree.project.fact(Constants).of(tree.module(), call.args[0]).constants == [8]
