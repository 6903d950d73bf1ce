"""Where tensors live, and which calls move them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.devices import Device
from gpulint.training.loader_flow import LoaderFlow
from tests.trees import Tree

MakeTree = Callable[..., Tree]


@pytest.mark.parametrize(
    ("code", "devices"),
    [
        ("x.to('cuda:1')", {Device.CUDA}),
        ("x.to(0)", {Device.CUDA}),
        ("x.to(torch.device('cpu'))", {Device.CPU}),
        ("x.to(f'cuda:{rank}')", {Device.CUDA}),
        ("x.to('mps')", {Device.OTHER}),
        ("x.to('gpu')", {Device.OTHER}),
        ("x.to(f'gpu:{rank}')", {Device.OTHER}),
        ("import paddle\nx.to('gpu')", {Device.CUDA}),
        ("x.to(str('cuda'))", {Device.CUDA}),
        ("x.cuda(non_blocking=True)", {Device.CUDA}),
        ("x.type(torch.cuda.FloatTensor)", {Device.CUDA}),
        ("x.to(local_rank)", {Device.CUDA}),
        (
            "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nx.to(device)",
            {Device.CUDA, Device.CPU},
        ),
        ("def f(device):\n    x.to(device)", {Device.UNKNOWN}),
    ],
)
def test_target_of_a_transfer(tree: MakeTree, code: str, devices: set[Device]) -> None:
    made = tree("import torch\n" + code)
    (transfer,) = made.project.fact(DeviceTransfers).transfers(made.module())
    assert transfer.devices == devices


@pytest.mark.parametrize(
    "code", ["x.to(torch.float16)", "x.to(dtype)", "x.to(other)", "x.type(torch.long)", "torch.cuda(x)"]
)
def test_casts_are_no_transfers(tree: MakeTree, code: str) -> None:
    made = tree("import torch\n" + code)
    assert made.project.fact(DeviceTransfers).transfers(made.module()) == ()


@pytest.mark.parametrize(
    ("call", "non_blocking"),
    [
        ("x.cuda()", False),
        ("x.cuda(None, True)", True),
        ("x.to('cuda', non_blocking=True)", True),
        ("x.to('cuda', non_blocking=False)", False),
        ("x.to('cuda', torch.half, True)", True),
        ("x.to(device='cuda', non_blocking=flag)", True),
    ],
)
def test_whether_the_host_waits(tree: MakeTree, call: str, non_blocking: bool) -> None:
    """A flag that nobody knows may be on."""
    made = tree(call)
    (transfer,) = made.project.fact(DeviceTransfers).transfers(made.module())
    assert transfer.non_blocking is non_blocking


def test_batch_transfers_leave_out_models_results_and_the_way_back(tree: MakeTree) -> None:
    made = tree(
        """\
        from torch.utils.data import DataLoader
        loader = DataLoader(data)
        model.cuda()
        for images, labels in loader:
            images = images.cuda()
            labels.to("cpu")
            loss = model(images)
            loss.to("cuda")
        """
    )
    found = list(made.project.fact(DeviceTransfers).batch_transfers(made.module()))
    assert [transfer.node.lineno for transfer in found] == [5]
    (loader,) = made.project.fact(LoaderFlow).in_module(made.module())
    assert list(made.project.fact(DeviceTransfers).transfers_of(loader)) == found


def test_functions_that_pass_a_device_round_in_a_circle_come_to_an_end(tree: MakeTree) -> None:
    made = tree(
        """
        import torch

        def first(x, device):
            device = torch.device(device)
            return second(x.to(device), device=torch.device(device))

        def second(x, device="cuda:0"):
            device = torch.device(device)
            return first(x.to(device), device=torch.device(device))
        """
    )
    transfers = made.project.fact(DeviceTransfers).transfers(made.module())
    assert all(transfer.to_gpu for transfer in transfers) and len(transfers) == 2
