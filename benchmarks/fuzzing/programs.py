"""Programs from the grammar of Python (hypothesmith), put where rules look: into loops, loaders and models."""

from __future__ import annotations

import ast
import functools
import textwrap
import warnings
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from fuzzing.corpus import Input

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

CHUNK = 50
"""Parts that are made at once, as hypothesis makes each from those before it."""
_IMPORTS = """\
import torch
import tensorflow as tf
import torch.nn as nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments
"""
_LOADER = """\
loader = DataLoader({0}, batch_size={1}, num_workers={2}, pin_memory={3})
model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr={1})
"""
_LOOP = """\
for epoch in range(3):
    for batch in loader:
{0}
        loss = model(batch.cuda()).sum()
        loss.backward()
        optimizer.step()
        print(loss.item(), {1})
        torch.save(model.state_dict(), {2})
"""
_MODEL = """\
class Net(nn.Module):
    def forward(self, x, y={0}):
{1}
        return self.layer(x)[{2}]
"""
_EVALUATION = """\
def evaluate(model, loader, n={0}):
    model.eval()
    for x, y in loader:
{1}
        out = model(x.to({2})).cpu().numpy()
    return out
evaluate(Net(), loader, {0})
args = TrainingArguments({1!r}, per_device_train_batch_size={0}, dataloader_num_workers={2})
Trainer(model=model, args=args).train()
"""
_JOB = b"#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --cpus-per-task=8\npython train.py --batch-size 8\n"


class Programs:
    """Makes program after program; the seed and the number give the same one."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def input(self, index: int) -> Input:
        """A job that starts the program number ``index``."""
        random = Random(f"{self.seed}:{index}")
        modules, expressions = parts(self.seed, index // CHUNK)
        program = modules[index % len(modules)]
        if random.random() < 0.8:
            program = _wrapped(random, program, modules, expressions)
        files = {b"train.py": program.encode("utf-8", "surrogatepass"), b"run.sbatch": _JOB}
        return Input(files, "python", (), index, "hypothesmith")


@functools.lru_cache(2)
def parts(seed: int, chunk: int) -> tuple[list[str], list[str]]:
    """Modules and expressions."""
    import hypothesmith

    number = seed * 1_000_000 + chunk
    # Programs from syntax trees are good ones, but each takes as long as ten from the grammar.
    modules = _drawn(hypothesmith.from_grammar(), number, CHUNK) + _drawn(hypothesmith.from_node(), number, CHUNK // 10)
    return modules, ["1", *dict.fromkeys(expression for module in modules for expression in _expressions(module))]


def _expressions(module: str) -> Iterator[str]:
    """Every expression of a program."""
    if _parses(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = [node for node in ast.walk(ast.parse(module)) if isinstance(node, ast.expr)]
        yield from filter(None, (ast.get_source_segment(module, node) for node in nodes))


def _drawn(strategy: SearchStrategy[str], seed: int, count: int) -> list[str]:
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    found: list[str] = []
    options = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @seeded(seed)
    @options
    @given(strategy)
    def collect(text: str) -> None:
        found.append(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect()
    return found


def _wrapped(random: Random, program: str, modules: list[str], expressions: list[str]) -> str:
    """A program with others around it; parts that cannot be where they were meant to be are left out."""

    def value() -> str:
        text = random.choice(expressions).strip()
        return text if _parses(f"f(x={text}, y=1)") else "1"

    def body(depth: int) -> str:
        text = textwrap.indent(random.choice(modules), " " * depth) + "\n"
        return text if _parses("def f():\n" + " " * depth + "pass\n" + text) else " " * depth + "pass"

    made = [
        _IMPORTS,
        program,
        _LOADER.format(*(value() for _ in range(4))),
        _LOOP.format(body(8), value(), value()),
        _MODEL.format(value(), body(8), value()),
        _EVALUATION.format(value(), body(8), value()),
    ]
    kept = [made[0], *(part for part in made[1:] if part is program or _parses(part))]
    return "\n".join(kept[:1] + random.sample(kept[1:], random.randint(1, len(kept) - 1)))


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
