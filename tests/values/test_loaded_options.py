"""Options of the command line whose defaults, or values, a file of the tree gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.values.constants import Constants
from tests.trees import Tree

HEAD = """\
import argparse
import yaml


def load(path):
    with open(path) as file:
        return yaml.safe_load(file)


parser = argparse.ArgumentParser()
parser.add_argument("--config", default="conf/run.yaml")
"""
LOOP = 'for key, value in load("conf/run.yaml").items():\n    parser.add_argument(f"--{key}", default=value)\n'
KEYS = 'config = load("conf/run.yaml")\nfor key in config:\n    parser.add_argument("--" + key, default=config[key])\n'
OPTION = 'parser.add_argument("--optimizer", default="lars")\n'
PARSE = "args = parser.parse_args()\n"
ADAM = ["adam"]


def _known(tmp_path: Path, code: str, command: str = "") -> list[object]:
    files = {"main.py": f"{HEAD}{code}use(args.optimizer)\n", "conf/run.yaml": "optimizer: adam\nepochs: 3\n"}
    made = Tree(tmp_path, files | ({"run.sh": f"{command}\n"} if command else {}))
    module = made.module("main.py")
    return made.project.fact(Constants).of(module, module.calls_by_name["use"][0].args[0]).constants


@pytest.mark.parametrize(
    "code",
    [
        LOOP + PARSE,
        LOOP.replace('f"--{key}"', '"--%s" % key') + PARSE,
        LOOP.replace('f"--{key}"', '"--{}".format(key)') + PARSE,
        KEYS + PARSE,
        OPTION + 'parser.set_defaults(**load("conf/run.yaml"))\n' + PARSE,
        OPTION + PARSE + "vars(args).update(load(args.config))\n",
        OPTION + PARSE + "args.__dict__.update(load(args.config))\n",
        OPTION + PARSE + "every = vars(args)\nread = load(args.config)\nevery.update(read)\n",
        OPTION + PARSE + "every = args.__dict__\nevery.update(load(args.config))\n",
        OPTION + PARSE + "for key, value in load(args.config).items():\n    setattr(args, key, value)\n",
    ],
)
def test_a_file_gives_an_option_its_value(tmp_path: Path, code: str) -> None:
    assert _known(tmp_path, code) == ADAM


@pytest.mark.parametrize("code", [LOOP + PARSE, OPTION + 'parser.set_defaults(**load("conf/run.yaml"))\n' + PARSE])
def test_a_command_comes_before_the_file(tmp_path: Path, code: str) -> None:
    assert _known(tmp_path, code, "python main.py --optimizer lars") == ["lars"]


def test_the_file_replaces_what_a_command_passes(tmp_path: Path) -> None:
    code = OPTION + PARSE + "vars(args).update(load(args.config))\n"
    assert _known(tmp_path, code, "python main.py --optimizer lars") == ADAM


@pytest.mark.parametrize(
    ("code", "known"),
    [
        (LOOP.replace('"conf/run.yaml"', "path") + PARSE, []),
        (LOOP.replace("default=value", "default=None") + PARSE, []),
        (OPTION + "parser.set_defaults(**load(path))\n" + PARSE, []),
        (OPTION + PARSE + 'vars(other).update(load("conf/run.yaml"))\n', ["lars"]),
        (OPTION + PARSE + 'every = dict(vars(args))\nevery.update(load("conf/run.yaml"))\n', ["lars"]),
        (
            OPTION + PARSE + "for key, value in load(args.config).items():\n    setattr(model, key, value)\n",
            ["lars"],
        ),
    ],
)
def test_what_another_file_or_object_holds_says_nothing(tmp_path: Path, code: str, known: list[object]) -> None:
    assert _known(tmp_path, code) == known
