"""Findings depend on the code alone: not on the order of files, on the number of workers or on what else is scanned;
and the time they take grows with the code, whatever calls what."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.project import Project
from tests import confined

STEP = """\
    loss = model(batch.to("cuda"))
    loss.backward()
    print(loss.item())
    return loss
"""
PROGRAM = """\
import torch
from torch.utils.data import DataLoader
{imports}
loader = DataLoader(images, num_workers=2)
for epoch in range(3):
    for batch in loader:
        loss = f{called}(model, batch)
        print(loss.item())
        torch.cuda.empty_cache()
"""


@dataclass(frozen=True)
class Calls:
    """Which function calls which, which one takes the training step, and which ones programs call."""

    edges: tuple[tuple[int, ...], ...]
    step: int
    called: tuple[int, ...]
    modules: int

    def files(self) -> dict[str, str]:
        """The functions dealt out to modules, and a program for each that is called."""
        functions = range(len(self.edges))
        imports = [f"from part{one % self.modules} import f{one}" for one in functions]
        files = {
            f"program{number}.py": PROGRAM.format(imports=imports[one], called=one)
            for number, one in enumerate(self.called)
        }
        for module in range(self.modules):
            bodies = [self._function(one) for one in functions if one % self.modules == module]
            others = [imports[one] for one in functions if one % self.modules != module]
            files[f"part{module}.py"] = "\n".join(["import torch", *others, *bodies])
        return files

    def _function(self, one: int) -> str:
        calls = [f"    x = f{other}(model, batch)\n" for other in self.edges[one]]
        return f"def f{one}(model, batch):\n" + "".join(calls) + (STEP if one == self.step else "    return x\n")


@st.composite
def call_graphs(draw: st.DrawFn) -> Calls:
    """Chains, cycles, fans and diamonds, alone and with calls across them."""
    size = draw(st.integers(2, 26))
    shape = draw(st.sampled_from(["chain", "cycle", "fan", "diamond"]))
    ring = [(one + 1) % size for one in range(size)]
    edges = [[after] for after in ring]
    if shape == "chain":
        edges[-1] = []
    elif shape == "fan":
        edges = [[after] * draw(st.sampled_from([3, 30])) for after in ring[:-1]] + [[]]
    elif shape == "diamond":
        edges = [[after, ring[after]] if one < size - 2 else [] for one, after in enumerate(ring)]
    numbers = st.integers(0, size - 1)
    for one, other in draw(st.lists(st.tuples(numbers, numbers), max_size=4)):
        edges[one].append(other)
    called = (draw(numbers), 0, draw(numbers))
    return Calls(tuple(map(tuple, edges)), draw(st.one_of(st.just(size - 1), numbers)), called, draw(st.integers(1, 3)))


LOADED = plugins.load()


def findings(root: Path, files: Sequence[Path], jobs: int = 1) -> set[str]:
    """``code path:line`` of what a run of all rules finds in ``files``, each time with nothing known before."""
    everything = sorted(root.glob("*.py"))
    report = engine.run(Project(root, everything, Config(base=root)), files, LOADED.rules, jobs=jobs)
    assert report.errors == []
    return {f"{one.finding.rule.code} {one.finding.path.name}:{one.finding.span.line}" for one in report.results}


def write(root: Path, files: Mapping[str, str]) -> list[Path]:
    for name, text in files.items():
        (root / name).write_text(text)
    return sorted(root.glob("*.py"))


_RING = tuple((8, 2) if one == 7 else ((one + 1) % 16,) for one in range(16))
"""A cycle with a shorter one inside, which three programs enter: what they hand on comes round in any order."""


@settings(max_examples=12, deadline=None)
@given(call_graphs(), st.randoms(use_true_random=False))
@example(Calls(_RING, 5, (6, 0, 0), 1), random.Random(0))
@example(Calls(_RING, 5, (6, 0, 0), 2), random.Random(2))
def test_order_and_workers_change_nothing(calls: Calls, chance: random.Random) -> None:
    with TemporaryDirectory() as folder:
        paths = write(Path(folder), calls.files())
        together = findings(Path(folder), paths)
        shuffled = chance.sample(paths, len(paths))
        assert findings(Path(folder), shuffled) == together
        assert findings(Path(folder), shuffled, jobs=chance.choice([2, 3])) == together
        assert set().union(*(findings(Path(folder), [path]) for path in paths)) == together


def test_a_step_is_found_at_the_end_of_a_long_chain(tmp_path: Path) -> None:
    size = 60
    chain = Calls((*((one + 1,) for one in range(size - 1)), ()), size - 1, (size - 3, 0, 0, 0), 1)
    paths = write(tmp_path, chain.files())
    expected = {f"GPU207 program{number}.py:9" for number in range(4)}
    assert expected <= findings(tmp_path, paths)
    assert expected <= findings(tmp_path, paths, jobs=3)
    assert "GPU207 program3.py:9" in findings(tmp_path, [tmp_path / "program3.py"])


def _ring(size: int, *steps: int) -> list[list[int]]:
    return [[(one + step) % size for step in steps] for one in range(size)]


BODIES = {
    "sum": "    return {0} + {1} + {2}\n",
    "nested": "    return f{n0}(model, f{n1}(model, f{n2}(model, batch)))\n",
    "statements": "    a = {0}\n    b = f{n1}(model, a)\n    return f{n2}(model, b) if a else b\n",
    "generators": "    for b in {0}:\n        yield b\n    yield from {1}\n    for b in f{n2}(model, f{n0}(model, batch)):\n"
    "        yield b.cuda()\n",
    "loops": "    for b in batch:\n        f{n0}(model, b)\n    for c in loader:\n        f{n1}(model, c)\n    return {2}\n",
    "devices": "    device = torch.device(batch)\n    f{n0}(batch.to(device), torch.device(device))\n    return {1}, {2}\n",
    "loaders": "    loader = model or DataLoader(batch, num_workers=f{n0}(model, batch))\n    for b in loader:\n"
    "        f{n1}(loader, b.cuda())\n    return f{n2}(loader, batch)\n",
    "downloads": "    download_{n0}(model, batch)\n    download_{n1}(model, batch)\n    return download_{n2}(model, batch)\n",
    "saves": "    save_model_{n0}(model, batch)\n    save_model_{n1}(model, batch)\n    torch.save(model, batch)\n",
    "unpacked": "    a, b = {0}\n    c, d = f{n1}(a, b)\n    return f{n2}(c, d)\n",
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("shape", ["chain of 40", "ring of 200"])
def test_the_time_grows_with_the_code(body: str, shape: str, tmp_path: Path) -> None:
    edges = [[one + 1] * 3 for one in range(40)] if shape == "chain of 40" else _ring(200, 1, 7, 31)
    name = {"downloads": "download_", "saves": "save_model_"}.get(body, "f")
    lines = ["import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(images, num_workers=2)\n"]
    for one, others in enumerate(edges):
        calls = [f"f{other}(model, batch)" for other in others]
        numbers = {f"n{at}": other for at, other in enumerate(others)}
        lines.append(f"def {name}{one}(model, batch):\n{BODIES[body].format(*calls, **numbers)}")
    lines.append(f"def {name}{len(edges)}(model, batch):\n{STEP}for epoch in range(3):\n    for batch in loader:\n")
    lines.append(f"        loss = {name}0(model, {name}0(model, batch).to({name}0(batch, 'cuda')))\n")
    lines.append("        loss.backward()\n        print(loss.item(), batch.item())\n        torch.save(model, loss)\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "train.py").write_text("".join(lines))
    done = confined.run(["scan", "--isolated", "--no-cache", "--exit-zero", str(tree)], tree, cpu_s=20)
    assert done.code == 0, done.err
