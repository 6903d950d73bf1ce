"""Values that a program stores into a configuration object, and fields that HfArgumentParser fills."""

from __future__ import annotations

import ast
from pathlib import Path

from gpulint.values.constants import Constants
from tests.trees import Tree


def _constants(tmp_path: Path, files: dict[str, str], name: str) -> list[object]:
    made = Tree(tmp_path, files)
    use = made.module("train.py").calls_by_name["use"][0].args[0]
    assert isinstance(use, ast.Attribute) and use.attr == name
    return made.project.fact(Constants).of(made.module("train.py"), use).constants


def test_a_store_replaces_the_default_of_the_class(tmp_path: Path) -> None:
    text = "class Config:\n    name = 'PATH/to/model'\nconfig = Config()\nconfig.name = 'org/model'\nuse(config.name)\n"
    assert _constants(tmp_path, {"train.py": text}, "name") == ["org/model"]


def test_a_store_under_a_condition_leaves_the_default_possible(tmp_path: Path) -> None:
    text = "class Config:\n    name = 'a'\nconfig = Config()\nif big():\n    config.name = 'b'\nuse(config.name)\n"
    assert sorted(map(str, _constants(tmp_path, {"train.py": text}, "name"))) == ["a", "b"]


def test_a_later_store_does_not_count(tmp_path: Path) -> None:
    text = "class Config:\n    name = 'a'\nconfig = Config()\nuse(config.name)\nconfig.name = 'b'\n"
    assert _constants(tmp_path, {"train.py": text}, "name") == ["a"]


_PARSED = """\
from dataclasses import dataclass, field
from typing import Optional
from transformers import HfArgumentParser

@dataclass
class ModelArguments:
    model: Optional[str] = field(default=None)

parser = HfArgumentParser((ModelArguments,))
model_args, = parser.parse_args_into_dataclasses()
use(model_args.model)
"""


def test_the_launcher_fills_a_parsed_data_class(tmp_path: Path) -> None:
    files = {"train.py": _PARSED, "run.sh": "python train.py --model bert-base-uncased\n"}
    assert _constants(tmp_path, files, "model") == ["bert-base-uncased"]


def test_without_a_launcher_a_parsed_field_has_its_default(tmp_path: Path) -> None:
    assert _constants(tmp_path, {"train.py": _PARSED}, "model") == [None]
