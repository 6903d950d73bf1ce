"""Names alone say of some functions that no loop is around their calls, and never of one that runs in a loop."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gpulint.config import Config
from gpulint.project import Project
from gpulint.training import loop_contexts
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.outside_loops import runs_in_no_loop

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
CALLERS = (
    "def {new}():\n    return {old}()\n",
    "def {new}():\n    for epoch in range(9):\n        {old}()\n",
    "def {new}(loader, model):\n    for batch in loader:\n        {old}()\n        model(batch).backward()\n",
    "def {new}():\n    run({old})\n",
    "def {new}():\n    yield {old}()\n",
    "def {new}():\n    alias = {old}\n    alias()\n",
    "class {new}:\n    def __init__(self):\n        {old}()\n",
    "class {new}({old}):\n    pass\n",
    "class {new}({old}):\n    def __init__(self):\n        super().__init__()\n",
    "class {new}:\n    def step(self, batch):\n        {old}()\n",
    "def {new}():\n    def inner():\n        {old}()\n    return inner\n",
    "for {new} in DataLoader([]):\n    {old}()\n    torch.ones(1).backward()\n",
)


def written(folder: Path, chance: random.Random) -> Project:
    """A tree of modules in which each defines a few names that call names of the ones before."""
    names = [("module_0", "start")]
    (folder / "module_0.py").write_text(HEAD + "def start():\n    pass\n")
    for number in range(1, 4):
        lines = [HEAD]
        for index in range(chance.randrange(1, 4)):
            home, old = chance.choice(names)
            if home != f"module_{number}":
                lines.append(f"from {home} import {old}\n")
            lines.append(chance.choice(CALLERS).format(old=old, new=f"name_{number}_{index}"))
            names.append((f"module_{number}", f"name_{number}_{index}"))
        (folder / f"module_{number}.py").write_text("".join(lines))
    return Project(folder, sorted(folder.glob("*.py")), Config())


def contexts(project: Project) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """The loops around each function of a tree."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for path in project.python_files:
        module = project.module_at(path)
        assert module is not None
        for function in module.functions:
            around: tuple[LoopContext, ...] = project.fact(LoopContexts).enclosing_loops_of_function(module, function)
            place = (path.name, f"{function.name}:{function.lineno}")
            found[place] = [(one.loop.module.path.name, one.loop.node.lineno) for one in around]  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("seed", range(60))
def test_the_loops_around_functions_are_the_same_without_a_look_at_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    quick = contexts(written(tmp_path, random.Random(seed)))
    monkeypatch.setattr(loop_contexts, "runs_in_no_loop", lambda *_: False)
    monkeypatch.setattr(loop_contexts, "files_with_loops", lambda *_: None)
    assert quick == contexts(Project(tmp_path, sorted(tmp_path.glob("*.py")), Config()))


@pytest.mark.parametrize(("caller", "outside"), [(0, True), (1, False), (3, False), (4, False), (6, True), (9, False)])
def test_callers_that_names_tell_of(tmp_path: Path, caller: int, outside: bool) -> None:
    (tmp_path / "base.py").write_text("def start():\n    pass\n")
    text = CALLERS[caller].format(old="start", new="other")
    (tmp_path / "user.py").write_text(f"from base import start\n{text}")
    project = Project(tmp_path, sorted(tmp_path.glob("*.py")), Config())
    module = project.module_at(tmp_path / "base.py")
    assert module is not None
    assert runs_in_no_loop(project, module, module.functions[0]) is outside


def test_only_the_files_that_may_call_a_function_in_a_loop_are_parsed_for_its_loops(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text("def start():\n    pass\n")
    for name, caller in (("once", 0), ("often", 1), ("made", 6)):
        (tmp_path / f"{name}.py").write_text(f"from base import start\n{CALLERS[caller].format(old='start', new=name)}")
    paths = sorted(tmp_path.glob("*.py"))
    seen, project = Project(tmp_path, paths, Config()), Project(tmp_path, paths, Config())
    for path in paths:
        seen.callers(path, "start")
        project.learn(path, seen.summary(path), None)
    module = project.module_at(tmp_path / "base.py")
    assert module is not None
    (context,) = project.fact(LoopContexts).enclosing_loops_of_function(module, module.functions[0])
    assert context.loop.module.path.name == "often.py"
    assert {path.stem for path in project._module_indexes} == {"base", "often"}
