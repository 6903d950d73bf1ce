"""Values that programs read from configuration files of the tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.config import Config
from gpulint.project import Project
from gpulint.values.constants import Constants, ConstantSet

TRAIN = "lr: 0.1\ntrain:\n  batch_size: 64\n  loader: {num_workers: 0}\n"


def looked(root: Path, code: str) -> ConstantSet:
    """What is known of the argument of ``look(...)`` in a program beside ``conf/train.yaml``."""
    (root / "conf").mkdir()
    (root / "conf" / "train.yaml").write_text(TRAIN)
    (root / "conf" / "broken.yaml").write_text("a: [1\nb: }")
    (root / "conf" / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 4}\n')
    (root / "main.py").write_text(code)
    project = Project(root, [root / "main.py"], Config(base=root))
    module = project.module_at(root / "main.py")
    assert module is not None
    (call,) = module.calls_by_name["look"]
    return project.fact(Constants).of(module, call.args[0])


@pytest.mark.parametrize(
    ("code", "value", "place"),
    [
        ("import yaml\ncfg = yaml.safe_load(open('conf/train.yaml'))\nlook(cfg['lr'])", 0.1, ("train.yaml", 1)),
        (
            "import yaml\nwith open('conf/train.yaml') as f:\n    cfg = yaml.load(f, Loader=yaml.Loader)\n"
            "look(cfg['train']['batch_size'])",
            64,
            ("train.yaml", 3),
        ),
        (
            "from omegaconf import OmegaConf\ncfg = OmegaConf.load('conf/train.yaml')\nlook(cfg.train.loader.num_workers)",
            0,
            ("train.yaml", 4),
        ),
        (
            "import hydra\n@hydra.main(config_path='conf', config_name='train')\ndef main(cfg):\n    look(cfg.train.batch_size)",
            64,
            ("train.yaml", 3),
        ),
        (
            "import json\nds = json.load(open('conf/ds.json'))\nlook(ds.get('train_micro_batch_size_per_gpu', 1))",
            4,
            ("ds.json", 1),
        ),
        (
            "import argparse, yaml\np = argparse.ArgumentParser()\np.add_argument('--config', default='conf/train.yaml')\n"
            "args = p.parse_args()\ncfg = yaml.safe_load(open(args.config))\nlook(cfg['lr'])",
            0.1,
            ("train.yaml", 1),
        ),
    ],
)
def test_values_of_configuration_files(tmp_path: Path, code: str, value: object, place: tuple[str, int]) -> None:
    known = looked(tmp_path, code)
    assert [(one.value, one.source) for one in known.values] == [(value, "config")]
    assert (known.values[0].place.path.name, known.values[0].place.span.line) == place
    assert known.complete


@pytest.mark.parametrize(
    "code",
    [
        "import yaml\ncfg = yaml.safe_load(open(path))\nlook(cfg['lr'])",
        "import yaml\ncfg = yaml.safe_load(open('conf/gone.yaml'))\nlook(cfg['lr'])",
        "import yaml\ncfg = yaml.safe_load(open('conf/broken.yaml'))\nlook(cfg['a'])",
        "import yaml\ncfg = yaml.safe_load(open('/conf/train.yaml'))\nlook(cfg['lr'])",
        "import yaml\ncfg = yaml.safe_load(open('conf/train.yaml'))\nlook(cfg[key])",
        "import yaml\ncfg = yaml.safe_load(open('conf/train.yaml'))\nlook(cfg['no']['such'])",
        "def main(cfg):\n    look(cfg.train.batch_size)",
    ],
)
def test_what_cannot_be_followed_stays_unknown(tmp_path: Path, code: str) -> None:
    known = looked(tmp_path, code)
    assert not known.values
    assert known.unknown


def test_a_mapping_that_wraps_itself_comes_to_an_end(tmp_path: Path) -> None:
    code = "for _ in range(2):\n    cfg = dict(cfg)\n    f = f.open()\n    look(cfg['lr'] + json.load(f)['a'])"
    assert not looked(tmp_path, f"import json\n{code}").values


def test_a_configuration_that_is_kept_and_handed_on_is_followed(tmp_path: Path) -> None:
    code = """
import yaml


class Trainer:
    def __init__(self, config):
        self.config = config
        part = self.config["train"]
        look(part.get("batch_size"))


def load(path):
    with open(path) as file:
        return yaml.safe_load(file)


Trainer(load("conf/train.yaml"))
"""
    (value,) = looked(tmp_path, code).values
    assert (value.value, value.place.path.name, value.place.span.line) == (64, "train.yaml", 3)


def test_parts_that_hydra_puts_together(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "main.yaml").write_text("defaults:\n  - _self_\n  - model: large\n  - optional data@input: text\nseed: 1\n")
    for folder, name, text in (
        ("model", "large", "defaults: [base]\nid: org/large\n"),
        ("model", "base", "width: 8\n"),
        ("data", "text", "# @package _global_\nlimit: 4\n"),
    ):
        (conf / folder).mkdir(exist_ok=True)
        (conf / folder / f"{name}.yaml").write_text(text)
    code = (
        "import hydra\n@hydra.main(config_path='conf', config_name='main')\ndef main(cfg):\n"
        "    look(cfg.model.id, cfg.model.width, cfg.limit, cfg.seed, cfg.input.limit)"
    )
    (tmp_path / "main.py").write_text(code)
    project = Project(tmp_path, [tmp_path / "main.py"], Config(base=tmp_path))
    module = project.module_at(tmp_path / "main.py")
    assert module is not None
    (call,) = module.calls_by_name["look"]
    assert [project.fact(Constants).of(module, part).constants for part in call.args] == [
        ["org/large"],
        [8],
        [4],
        [1],
        [],
    ]


@pytest.mark.parametrize(
    ("command", "batch"),
    [("", [8]), ("data=big", [64]), ("experiment=second", []), ("data.batch=32", [32]), ("experiment=plain", [8])],
)
def test_a_command_chooses_the_file_of_a_group(tmp_path: Path, command: str, batch: list[int]) -> None:
    for name, text in (
        ("main", "defaults:\n  - data: small\nseed: 1\n"),
        ("data/small", "batch: 8\n"),
        ("data/big", "batch: 64\n"),
        ("experiment/second", "# @package _global_\ndefaults:\n  - override /data: big\n"),
        ("experiment/plain", "# @package _global_\nseed: 2\n"),
    ):
        path = tmp_path / "conf" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    code = "import hydra\n@hydra.main(config_path='conf', config_name='main')\ndef main(cfg):\n    look(cfg.data.batch)"
    (tmp_path / "main.py").write_text(code)
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n#SBATCH --gres=gpu:1\npython main.py {command}\n")
    project = Project(tmp_path, [tmp_path / "main.py", tmp_path / "job.sh"], Config(base=tmp_path))
    module = project.module_at(tmp_path / "main.py")
    assert module is not None
    (call,) = module.calls_by_name["look"]
    assert project.fact(Constants).of(module, call.args[0]).constants == batch


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("os.path.join(os.path.dirname(__file__), 'conf', 'train.yaml')", True),
        ("os.path.join(os.path.dirname(os.path.abspath(__file__)), 'conf/train.yaml')", True),
        ("os.path.join(os.path.dirname(os.path.dirname(__file__)), HOME, 'conf/train.yaml')", True),
        ("os.path.dirname(__file__) + '/conf/train.yaml'", False),
        ("Path(__file__).resolve().parent / 'conf' / 'train.yaml'", True),
        ("Path(__file__).parents[0].joinpath('conf', 'train.yaml')", True),
        ("str(Path(__file__).parent / 'conf' / 'train.yaml')", True),
        ("Path(__file__).parent / 'conf' / name", False),
        ("Path(__file__).parents[99] / 'conf' / 'train.yaml'", False),
        ("os.path.join(elsewhere(__file__), 'conf/train.yaml')", False),
        ("Path(__file__).parent / 'conf' / 'other.yaml'", False),
    ],
)
def test_a_path_may_start_from_the_file_of_the_program(tmp_path: Path, path: str, found: bool) -> None:
    code = f"import os\nfrom pathlib import Path\nimport yaml\nHOME = {tmp_path.name!r}\n"
    code += (
        f"def load(path):\n    with open(path) as file:\n        return yaml.safe_load(file)\nlook(load({path})['lr'])"
    )
    assert looked(tmp_path, code).constants == ([0.1] if found else [])


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("setattr(made, key, namespace(value) if isinstance(value, dict) else value)", True),
        ("setattr(made, value, key)", False),
        ("setattr(other, key, value)", False),
    ],
)
def test_a_mapping_may_be_copied_to_an_object(tmp_path: Path, line: str, found: bool) -> None:
    code = "import argparse, yaml\ndef namespace(config):\n    made = argparse.Namespace()\n"
    code += f"    for key, value in config.items():\n        {line}\n    return made\n"
    code += "look(namespace(yaml.safe_load(open('conf/train.yaml'))).train.loader.num_workers)"
    assert looked(tmp_path, code).constants == ([0] if found else [])
