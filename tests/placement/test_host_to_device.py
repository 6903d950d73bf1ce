"""How batches reach the GPU: through helpers, frameworks and hooks; and what says that they are there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from tests.trees import Tree

LOADER = "from torch.utils.data import DataLoader\nloader = DataLoader(data)\n"


@pytest.fixture
def make(tmp_path: Path):  # type: ignore[no-untyped-def]
    def build(**files: str) -> Project:
        return Tree(tmp_path, {f"{name}.py": text for name, text in files.items()}).project

    return build


def transfers(project: Project, name: str = "train") -> list[int]:
    module = project.module_at(project.root / f"{name}.py")
    assert module is not None
    return [transfer.node.lineno for transfer in project.fact(DeviceTransfers).batch_transfers(module)]


@pytest.mark.parametrize(
    "target",
    ["int(os.environ['LOCAL_RANK'])", "rank", "'cuda:0'", "torch.device(f'xpu:{rank}')", "0", "args.device"],
)
def test_what_names_a_gpu(make, target: str) -> None:  # type: ignore[no-untyped-def]
    text = f"{LOADER}import os, torch\ndevice = {target}\nfor x in loader:\n    model(x.to(device)).backward()\n"
    assert transfers(make(train=text)) == [6]


@pytest.mark.parametrize(
    "target", ["torch.float32", "'half'", "x.dtype", "'cpu'", "torch.device('mps')", "weight_dtype"]
)
def test_what_does_not(make, target: str) -> None:  # type: ignore[no-untyped-def]
    text = f"{LOADER}import torch\nfor x in loader:\n    model(x.to({target})).backward()\n"
    assert transfers(make(train=text)) == []


def test_a_bar_in_front_of_the_loop_is_the_loader(make) -> None:  # type: ignore[no-untyped-def]
    text = "def run(val_loader):\n    bar = TQDM(val_loader)\n    for x in bar:\n        model(x.cuda())\n"
    assert transfers(make(train=text)) == [4]


def test_a_shortened_prepared_loader_stays_prepared(make) -> None:  # type: ignore[no-untyped-def]
    text = LOADER + (
        "loader = accelerator.prepare(loader)\nactive = accelerator.skip_first_batches(loader, 3)\n"
        "for x in active:\n    model(x.cuda()).backward()\n"
    )
    assert transfers(make(train=text)) == []


def test_a_function_that_is_handed_over_runs_in_the_loop_of_that_call(make) -> None:  # type: ignore[no-untyped-def]
    text = LOADER + (
        "def step(batches, model):\n    x = next(batches)['x'].cuda()\n    return model(x)\n"
        "for i in range(5):\n    schedule(run=step, batches=iter(loader))\n    optimizer.step()\n"
    )
    project = make(train=text)
    assert transfers(project) == [4]
    module = project.module_at(project.root / "train.py")
    assert [
        context.role for context in project.fact(LoopContexts).enclosing_loops_of_function(module, module.functions[0])
    ] == [Role.STEP]
    assert len(list(project.fact(DeviceTransfers).transfers_of(project.fact(LoaderFlow).in_module(module)[0]))) == 1


@pytest.mark.parametrize(
    ("code", "pinned"),
    [
        ("DataLoader(d)", False),
        ("DataLoader(d, pin_memory=False)", False),
        ("DataLoader(d, pin_memory=torch.cuda.is_available())", True),
        ("DataLoader(d, 1, True, None, None, 0, None, True)", True),
        ("DataLoader(d, **options)", None),
    ],
)
def test_pinning(make, code: str, pinned: bool | None) -> None:  # type: ignore[no-untyped-def]
    project = make(train=f"import torch\nfrom torch.utils.data import DataLoader\nloader = {code}\n")
    module = project.module_at(project.root / "train.py")
    assert project.fact(HostToDevice).is_pinned(project.fact(LoaderFlow).in_module(module)[0]) is pinned


@pytest.mark.parametrize(
    ("code", "moved"),
    [
        ("loader = accelerator.prepare(loader)", True),
        ("loader = fabric.setup_dataloaders(loader)", True),
        ("import lightning as L\nL.Trainer().fit(model, train_dataloaders=[loader])", True),
        ("import lightning as L\nL.Trainer(accelerator='cpu').fit(model, loader)", False),
        ("from accelerate import Accelerator\na = Accelerator(cpu=True)\nloader = a.prepare(loader)", False),
        ("from ignite.engine import create_supervised_trainer\n"
         "t = create_supervised_trainer(m, o, f, device='cuda')\nt.run(loader)", True),
        ("from sklearn.svm import SVC\nSVC().fit(loader)", False),
    ],
)  # fmt: skip
def test_frameworks_that_move_batches(make, code: str, moved: bool) -> None:  # type: ignore[no-untyped-def]
    project = make(train=LOADER + code + "\n")
    module = project.module_at(project.root / "train.py")
    assert (project.fact(HostToDevice).mover(project.fact(LoaderFlow).in_module(module)[0]) is not None) is moved


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("loss.item()", True),
        ("float(loss)", True),
        ("print(f'{loss}')", True),
        ("np.mean(a).item()", False),
        ("torch.empty(()).random_().item()", False),
        ("out.detach().cpu().numpy().tolist()", True),
        ("float(args.lr)", False),
        ("print('lr', lr)", False),
        ("bar.set_postfix(loss=loss)", True),
    ],
)
def test_what_waits_for_the_gpu(make, code: str, found: bool) -> None:  # type: ignore[no-untyped-def]
    project = make(train=f"import torch\nimport numpy as np\nout = model(x)\nloss = criterion(out, y)\n{code}\n")
    module = project.module_at(project.root / "train.py")
    assert bool(list(SyncPoints(project).in_module(module))) is found
