"""What loops are for, and which loops a statement runs in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from tests.trees import Tree

MakeTree = Callable[..., Tree]


@pytest.mark.parametrize(
    ("code", "role"),
    [
        ("for x in data:\n    loss.backward()\n    optimizer.step()", Role.STEP),
        ("while running:\n    fabric.backward(loss)", Role.STEP),
        ("for x in loader:\n    scaler.step(optimizer)", Role.STEP),
        ("for x in loader:\n    trainer.train_step(x)", Role.STEP),
        ("for epoch in range(9):\n    report(epoch)", Role.EPOCH),
        ("for i in range(9):\n    for x in loader:\n        loss.backward()", Role.EPOCH),
        ("for x in val_loader:\n    y = model(x)", Role.EVAL),
        ("def validate():\n    for x in loader:\n        y = run(x)", Role.EVAL),
        ("for x in loader:\n    sizes.append(len(x))", Role.OTHER),
        ("for name in names:\n    print(name)", Role.OTHER),
        ("for x in things:\n    scheduler.step()", Role.OTHER),
    ],
)
def test_the_outermost_loop_has_its_role(tree: MakeTree, code: str, role: Role) -> None:
    made = tree(code)
    module = made.module()
    assert made.project.fact(LoopContexts).role(module, min(module.loops, key=lambda loop: loop.lineno)) is role


def test_methods_of_strings_and_collections_are_not_followed_to_a_step(tree: MakeTree) -> None:
    made = tree(
        {
            "main.py": "from work import Net, Names\nfor x in a:\n    Net().update(x)\nfor y in b:\n    Names().strip(y)\n",
            "work.py": "class Net:\n    def update(self, x):\n        loss(x).backward()\n\n"
            "class Names:\n    def strip(self, x):\n        loss(x).backward()\n",
        }
    )
    module = made.module()
    loops = sorted(module.loops, key=lambda loop: loop.lineno)
    assert [made.project.fact(LoopContexts).role(module, loop) for loop in loops] == [Role.STEP, Role.OTHER]


def test_a_helper_of_another_module_makes_the_step(tree: MakeTree) -> None:
    made = tree(
        {
            "main.py": "from work import update\nfor epoch in range(3):\n    for x in loader:\n        update(x)\n",
            "work.py": "def update(x):\n    model(x).backward()\n    optimizer.step()\n    note(x)\n",
        }
    )
    module, work = made.module(), made.module("work.py")
    roles = [
        made.project.fact(LoopContexts).role(module, loop)
        for loop in sorted(module.loops, key=lambda loop: loop.lineno)
    ]
    assert roles == [Role.EPOCH, Role.STEP]
    note = work.calls_by_name["note"][0]
    (context,) = made.project.fact(LoopContexts).enclosing_loops(work, note)
    assert (context.role, context.loop.module.path.name) == (Role.STEP, "main.py")
    assert [call.node for call in context.calls] == module.calls_by_name["update"]


@pytest.mark.parametrize(
    ("hook", "role"),
    [("training_step", Role.STEP), ("validation_step", Role.EVAL), ("on_train_epoch_end", Role.EPOCH)],
)
def test_hooks_stand_for_the_loop_of_their_framework(tree: MakeTree, hook: str, role: Role) -> None:
    made = tree(f"import lightning as L\nclass M(L.LightningModule):\n    def {hook}(self, x):\n        note(x)\n")
    module = made.module()
    assert [
        c.role for c in made.project.fact(LoopContexts).enclosing_loops(module, module.calls_by_name["note"][0])
    ] == [role]


def test_the_same_method_of_another_class_is_no_hook(tree: MakeTree) -> None:
    made = tree("class M:\n    def training_step(self, x):\n        note(x)\n")
    module = made.module()
    assert made.project.fact(LoopContexts).enclosing_loops(module, module.calls_by_name["note"][0]) == ()


def test_only_modules_with_steps_train(tree: MakeTree) -> None:
    made = tree({"main.py": "loss.backward()\n", "other.py": "model.eval()\nscheduler.step()\n"})
    assert made.project.fact(LoopContexts).has_training_step(made.module())
    assert not made.project.fact(LoopContexts).has_training_step(made.module("other.py"))


@pytest.mark.parametrize(
    ("more", "reached"),
    [
        ({}, [0, 1]),
        ({"run.sh": "python part/train.py\n"}, [0, 1]),
        ({"run.sh": "python -m part.train\n"}, [1, 1]),
        ({"main.py": "from part.train import run\nrun()\n"}, [1, 1]),
        ({"main.py": "from part import train\ntrain.run()\n"}, [1, 1]),
        ({"main.py": "from other import train\ntrain.run()\n"}, [0, 1]),
    ],
)
def test_a_script_calls_what_is_beside_it_before_the_same_of_the_root(
    tree: MakeTree, more: dict[str, str], reached: list[int]
) -> None:
    helper = "def note_all(x):\n    note(x)\n"
    script = "from utils import note_all\ndef run():\n    for x in loader:\n        loss(x).backward()\n        note_all(x)\n"
    made = tree({"part/train.py": script, "part/utils.py": helper, "utils.py": helper, **more})
    contexts = made.project.fact(LoopContexts)
    modules = [made.module("utils.py"), made.module("part/utils.py")]
    assert [len(contexts.enclosing_loops(one, one.calls_by_name["note"][0])) for one in modules] == reached
