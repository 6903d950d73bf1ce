"""What an expression may be: names, constants and arguments, followed through the tree."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gpulint.config import Config
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.values.arguments import Arguments, ArgumentState
from gpulint.values.constants import Constants
from tests import trees


class Tree(trees.Tree):
    """A project of a few files, asked about the calls of ``look(...)`` in ``main.py``."""

    def __init__(self, root: Path, **files: str) -> None:
        super().__init__(root, {f"{name}.py": text for name, text in {"main": "", **files}.items()})
        self.main = self.module()

    def looked(self, index: int = 0) -> ast.expr:
        """The argument of the n-th ``look`` call in source order."""
        calls = sorted(self.main.calls_by_name["look"], key=lambda call: call.lineno)
        return calls[index].args[0]

    def names(self, index: int = 0) -> set[str]:
        return set(self.project.fact(Resolver).names(self.main, self.looked(index)))

    def constants(self, index: int = 0) -> list[object]:
        """Known constants; ``...`` stands for "and something unknown"."""
        known = self.project.fact(Constants).of(self.main, self.looked(index))
        return sorted(known.constants, key=repr) + ([...] if known.unknown else [])

    def call(self, name: str) -> ast.Call:
        (call,) = self.main.calls_by_name[name]
        return call


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import torch\nlook(torch.save)", {"torch.save"}),
        ("import torch.nn as nn\nlook(nn.Linear)", {"torch.nn.Linear"}),
        ("from torch.utils.data import DataLoader as DL\nmk = DL\nlook(mk)", {"torch.utils.data.DataLoader"}),
        ("from functools import partial\nfrom a import f\ng = partial(f, 1)\nlook(g)", {"a.f"}),
        ("try:\n    from a import f\nexcept ImportError:\n    from b import f\nlook(f)", {"a.f", "b.f"}),
        ("from a import f\nf = None\nlook(f)", set()),
        ("look(print)", {"print"}),
        ("look(nobody.knows)", set()),
    ],
)
def test_names_follow_aliases(tmp_path: Path, code: str, expected: set[str]) -> None:
    assert Tree(tmp_path, main=code).names() == expected


def test_names_follow_reexports_and_stars(tmp_path: Path) -> None:
    tree = Tree(
        tmp_path,
        main="from pkg import save\nfrom pkg.stars import *\nlook(save)\nlook(load)\n",
        **{
            "pkg/__init__": "from .io import save\n",
            "pkg/io": "from torch import save\n",
            "pkg/stars": "from torch import load\n",
        },
    )
    assert "torch.save" in tree.names(0)
    assert "torch.load" in tree.names(1)


def test_a_module_of_the_tree_does_not_hide_a_library_it_does_not_define(tmp_path: Path) -> None:
    tree = Tree(tmp_path, main="from datasets import load_dataset\nlook(load_dataset)\n", datasets="def other(): ...\n")
    assert tree.names() == {"datasets.load_dataset"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = 3\nlook(x)", [3]),
        ("x = 3\nx = 4\nlook(x)", [4]),
        ("x = 3\nif cond:\n    x = 4\nlook(x)", [3, 4]),
        ("if cond:\n    x = 3\nelse:\n    x = 4\nlook(x)", [3, 4]),
        ("if cond:\n    x = 3\nelse:\n    look(x)\nx = 1", [...]),
        ("x = 1\nfor i in range(9):\n    look(x)\n    x = 2", [1, 2]),
        ("for x in items:\n    look(x)", [...]),
        ("x = 1\nx += 1\nlook(x)", [...]),
        ("a, (b, c) = 1, (2, 3)\nlook(c)", [3]),
        ("a, *b, c = 1, 2, 3, 4\nlook(c)", [4]),
        ("a = b = 8 * 2 - 1\nlook(b)", [15]),
        ("look(7 if cond else unknown())", [7, ...]),
        ("look(x := 5)", [5]),
        ("import os\nlook(os.environ.get('N', 4))", [4]),
        ("import os\nlook(int(os.environ.get('N') or 0))", [0]),
        ("import os\nlook(int(os.environ.get('SLURM_CPUS_PER_TASK', 0)))", [...]),
        ("import os\nlook(int(os.environ.get('SLURM_CPUS_ON_NODE') or 0))", [...]),
        ("look(int(settings.get('n') or 0))", [...]),
        ("look('s3://bucket/' + 'x')", ["s3://bucket/x"]),
        ("root = '/mnt/blob'\nlook(f'{root}/epoch{n}.pt')", ["/mnt/blob/epoch{}.pt"]),
        ("import os\nlook(os.path.join('/mnt', name, 'x'))", ["/mnt/{}/x"]),
        ("d = {'a': 1}\nlook(d['a'])", [1]),
        ("d = dict(a=1)\nlook(d['b'])", [...]),
        ("look(unknown)", [...]),
        ("x = x\nlook(x)", [...]),
    ],
)
def test_constants_within_a_module(tmp_path: Path, code: str, expected: list[object]) -> None:
    assert Tree(tmp_path, main=code).constants() == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(n=4):\n    look(n)\nf()\n", [4]),
        ("def f(n=4):\n    look(n)\nf(8)\n", [8]),
        ("def f(n=4):\n    look(n)\nf(8)\nf(n=16)\nf()\n", [16, 4, 8]),
        ("def f(n):\n    look(n)\n", [...]),
        ("def f(n):\n    look(n)\nf(*rest)\n", [...]),
        ("def g():\n    return 1, 2\na, b = g()\nlook(b)", [2]),
        ("class C:\n    size = 4\nlook(C().size)", [4]),
        (
            "class C:\n    def __init__(self, n):\n        self.n = n\n    def m(self):\n        look(self.n)\nC(32)\n",
            [32],
        ),
        (
            "class A:\n    def __init__(self):\n        self.n = 2\nclass B(A):\n    def m(self):\n        look(self.n)\n",
            [2],
        ),
        (
            "import torch.multiprocessing as mp\ndef run(rank, n):\n    look(n)\nmp.spawn(run, args=(64,), nprocs=4)\n",
            [64],
        ),
        (
            "def run(config):\n    look(config['n'])\n"
            "TorchTrainer(train_loop_per_worker=run, train_loop_config={'n': 8})\n",
            [8],
        ),
        ("def f(n):\n    f(n)\n    look(n)\nf(1)\n", [1]),
    ],
)
def test_constants_through_functions_and_classes(tmp_path: Path, code: str, expected: list[object]) -> None:
    assert Tree(tmp_path, main=code).constants() == expected


def test_constants_across_modules(tmp_path: Path) -> None:
    tree = Tree(
        tmp_path,
        main="from settings import BATCH\nfrom lib.build import make\nlook(BATCH)\nmake(BATCH)\n",
        settings="from lib.defaults import BATCH\n",
        **{"lib/defaults": "BATCH = 256\n", "lib/build": "def make(size):\n    look(size)\n"},
    )
    assert tree.constants() == [256]
    build = tree.project.module_at(tmp_path / "lib" / "build.py")
    assert build is not None
    (call,) = build.calls_by_name["look"]
    assert tree.project.fact(Constants).of(build, call.args[0]).constants == [256]


def test_circular_imports_end(tmp_path: Path) -> None:
    tree = Tree(tmp_path, main="from a import x\nlook(x)\n", a="from b import x\n", b="from a import x\n")
    assert tree.constants() == [...]


OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=64)
parser.add_argument("--lr", default=0.1, dest="rate")
parser.add_argument("--debug", action="store_true")
parser.add_argument("--data", required=True)
args = parser.parse_args()
"""


def test_option_defaults(tmp_path: Path) -> None:
    tree = Tree(tmp_path, main=OPTIONS + "look(args.batch_size)\nlook(args.rate)\nlook(args.debug)\nlook(args.data)\n")
    assert [tree.constants(index) for index in range(4)] == [[64], [0.1], [False], [...]]
    known = tree.project.fact(Constants).of(tree.main, tree.looked(0))
    assert [(value.source, value.place.span.line) for value in known.values] == [("default", 3)]


def test_option_default_used_in_another_module(tmp_path: Path) -> None:
    tree = Tree(
        tmp_path,
        main="from options import get\ndef work(args):\n    look(args.batch_size)\nwork(get())\n",
        options=OPTIONS.replace("args = ", "def get():\n    return "),
    )
    assert tree.constants() == [64]


def test_a_launcher_overrides_the_default(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/bash\npython main.py --batch-size 8\n")
    tree = Tree(tmp_path, main=OPTIONS + "look(args.batch_size)\n")
    tree.project = Project(tmp_path, sorted(tmp_path.iterdir()), Config(base=tmp_path))
    module = tree.project.module_at(tmp_path / "main.py")
    assert module is not None
    tree.main = module
    known = tree.project.fact(Constants).of(tree.main, tree.looked(0))
    assert [(value.value, value.source, value.place.path.name) for value in known.values] == [(8, "launcher", "run.sh")]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "from dataclasses import dataclass, field\n@dataclass\nclass C:\n    a: int = 1\n    b: int = field(default=2)\n"
            "def f(cfg: C):\n    look(cfg.b)\n",
            [2],
        ),
        ("from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 1\nlook(C(a=5).a)\n", [5]),
        ("import click\n@click.command()\n@click.option('--n', default=3)\ndef main(n):\n    look(n)\n", [3]),
        ("import click\n@click.command()\n@click.option('--n', default=3)\ndef main(n=4):\n    look(n)\n", [3]),
        ("import click\n@click.command()\n@click.option('--n', type=int)\ndef main(n=None):\n    look(n)\n", [None]),
        ("import click\n@click.command()\n@click.option('--m')\ndef main(n=4):\n    look(n)\n", [4]),
        ("import typer\ndef main(n: int = typer.Option(3)):\n    look(n)\n", [3]),
    ],
)
def test_defaults_of_other_option_libraries(tmp_path: Path, code: str, expected: list[object]) -> None:
    assert Tree(tmp_path, main=code).constants() == expected


@pytest.mark.parametrize(
    ("code", "passed", "values"),
    [
        ("make(data)", ArgumentState.NEVER, []),
        ("make(data, pin=True)", ArgumentState.ALWAYS, [True]),
        ("make(data, False)", ArgumentState.ALWAYS, [False]),
        ("make(*everything)", ArgumentState.UNKNOWN, []),
        ("make(data, **options)", ArgumentState.UNKNOWN, []),
        ("kw = {'pin': True}\nmake(data, **kw)", ArgumentState.ALWAYS, [True]),
        ("kw = dict(other=1)\nmake(data, **kw)", ArgumentState.NEVER, []),
        ("kw = {}\nkw['pin'] = True\nmake(data, **kw)", ArgumentState.ALWAYS, [True]),
        ("kw = {}\nif cuda:\n    kw.update(pin=True)\nmake(data, **kw)", ArgumentState.SOMETIMES, [True]),
        ("kw = {'pin': True} if cuda else {}\nmake(data, **kw)", ArgumentState.SOMETIMES, [True]),
        ("kw = {'other': 1}\nkw.update(load())\nmake(data, **kw)", ArgumentState.UNKNOWN, []),
        ("base = {'pin': False}\nkw = {**base, 'x': 1}\nmake(data, **kw)", ArgumentState.ALWAYS, [False]),
        ("def wrap(**kw):\n    return make(data, **kw)\nwrap(pin=True)", ArgumentState.ALWAYS, [True]),
        ("def wrap(**kw):\n    return make(data, **kw)\n", ArgumentState.UNKNOWN, []),
        (
            "def f(kw):\n    make(data, **kw)\nk = {}\nif cuda:\n    k.update({'pin': True})\nf(k)",
            ArgumentState.SOMETIMES,
            [True],
        ),
        ("def f(kw):\n    make(data, **kw)\nk = {'x': 1}\nk.update(load())\nf(k)", ArgumentState.UNKNOWN, []),
        ("def f(kw):\n    make(data, **kw)\nk = {'x': 1}\nf(k)", ArgumentState.NEVER, []),
    ],
)
def test_arguments(tmp_path: Path, code: str, passed: ArgumentState, values: list[object]) -> None:
    tree = Tree(tmp_path, main=code)
    argument = tree.project.fact(Arguments).of(tree.main, tree.call("make"), "pin", 1)
    assert argument.passed is passed
    assert tree.project.fact(Arguments).value(tree.main, tree.call("make"), "pin", 1).constants == values


def test_a_generated_module_of_deep_nesting_is_survived(tmp_path: Path) -> None:
    deep = "x = " + "(" * 80 + "1" + ")" * 80 + "\n" + "+".join(["y"] * 5000) + "\nlook(x)\n"
    (tmp_path / "main.py").write_text(deep)
    project = Project(tmp_path, [tmp_path / "main.py"], Config(base=tmp_path))
    document = project.document(tmp_path / "main.py")
    assert document is not None
    assert project.module(document) is None
    assert "nested too deeply" in document.problems[0].message


def test_a_namespace_has_the_defaults_of_the_parser_that_made_it(tmp_path: Path) -> None:
    tree = Tree(
        tmp_path,
        main="""\
import argparse

def train():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default=16)
    args = parser.parse_args()
    look(args.size)

def serve():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default=1)
    args = parser.parse_args()
    look(args.size)
""",
    )
    assert (tree.constants(0), tree.constants(1)) == ([16], [1])


def test_long_chains_of_sums_come_to_an_end(tmp_path: Path) -> None:
    # Each variable stands twice in the next one: without answers kept, the last asks for the first 2 ** 40 times.
    steps = "".join(f"a{n + 1} = a{n} + a{n}\n" for n in range(40))
    assert Tree(tmp_path, main=f"a0 = 1\n{steps}look(a40)\n").constants() == [2**40]


def test_callers_that_import_in_parentheses_count(tmp_path: Path) -> None:
    tree = Tree(tmp_path, main="def f(n):\n    look(n)\n", user="from . import (\n    main,\n)\n\nmain.f(3)\n")
    assert tree.constants() == [3]
