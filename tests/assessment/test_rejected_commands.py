"""Jobs that cannot start, as the parser of their program rejects the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases, levels, scan

_REJECTED = "its program rejects the command"
_SCRIPT = """\
#!/bin/bash
#SBATCH --gpus-per-node=4
#SBATCH --nodes=1
torchrun --nproc_per_node=1 train.py {}
"""
_DECLARED = """\
    parser.add_argument("--arch", choices=["vit_tiny", "vit_small"], default="vit_tiny")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1])
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--data_path", required=True)
"""
_TRAINS = """\
def train(args):
    torch.distributed.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(9, 9).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(90):
        for images, labels in loader(args):
            loss = model(images.cuda()).mean()
            loss.backward()
            optimizer.step()
            print(loss.item())
"""
_HEAD = "import argparse\nimport torch\nfrom data import loader\n\n" + _TRAINS
_PLAIN = f"""{_HEAD}
def main():
    parser = argparse.ArgumentParser("Training")
{_DECLARED}
    args = parser.parse_args()
    train(args)

if __name__ == "__main__":
    main()
"""
_PARENTS = f"""{_HEAD}
def options():
    parser = argparse.ArgumentParser("Options", add_help=False)
{_DECLARED}
    return parser

if __name__ == "__main__":
    parser = argparse.ArgumentParser("Training", parents=[options()])
    args = parser.parse_args()
    train(args)
"""
_RETURNED = f"""{_HEAD}
def options():
    parser = argparse.ArgumentParser("Options", add_help=False)
{_DECLARED}
    return parser

if __name__ == "__main__":
    args = options()
    args = args.parse_args()
    train(args)
"""
_PROGRAMS = {"plain": _PLAIN, "parents": _PARENTS, "returned": _RETURNED}
_BAD = (
    "--arch BC_SSL_tiny --data_path images",
    "--arch vit_tiny --data_path images --epochs 90",
    "--arch vit_tiny",
    "--lr fast --data_path images",
    "--data_path images --sizes 9 wide",
    "--data_path images extra",
    "--amp yes --data_path images",
)
_GOOD = (
    "--arch vit_small --data_path images",
    "--data_pa images --lr 3",
    "--data_path images --sizes 9 9 9",
    "--arch $ARCH --data_path images",
    "--arch BC_SSL_tiny $MORE",
    "--data_path images --amp",
    "--data_path images --local_rank 0",
)


def _levels(folder: Path, program: str, words: str, **more: str) -> list[str]:
    files = {"train.py": program, "data.py": "", "job.sh": _SCRIPT.format(words), **more}
    return levels(folder, files, "GPU103")


@pytest.mark.parametrize("program", _PROGRAMS.values(), ids=_PROGRAMS)
@pytest.mark.parametrize("words", _BAD)
def test_a_job_whose_program_rejects_its_command_costs_nothing(tmp_path: Path, program: str, words: str) -> None:
    files = {"train.py": program, "data.py": "", "job.sh": _SCRIPT.format(words)}
    (found,) = bases(tmp_path, files, "GPU103")
    assert found.startswith("low") and _REJECTED in found


@pytest.mark.parametrize("program", _PROGRAMS.values(), ids=_PROGRAMS)
@pytest.mark.parametrize("words", _GOOD)
def test_a_job_that_may_start_is_shown(tmp_path: Path, program: str, words: str) -> None:
    assert _levels(tmp_path, program, words) == ["high"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("args = parser.parse_args()", "args, rest = parser.parse_known_args()"),
        ("args = parser.parse_args()", "add_options(parser)\n    args = parser.parse_args()"),
        ("args = parser.parse_args()", 'args = parser.parse_args(["--data_path", "a"])'),
        ("args = parser.parse_args()", "if torch.cuda.is_available():\n        args = parser.parse_args()"),
        ("args = parser.parse_args()", "more = parser.add_subparsers()\n    args = parser.parse_args()"),
        ('choices=["vit_tiny", "vit_small"]', 'choices=["vit_tiny"] + names'),
        ('choices=["vit_tiny", "vit_small"]', 'type=by_name, choices=["vit_tiny", "vit_small"]'),
        (
            '    parser.add_argument("--amp"',
            '    for name in names:\n        parser.add_argument(name)\n    parser.add_argument("--amp"',
        ),
        ('parser.add_argument("--arch"', 'parser.add_argument("--arch", action=Alias'),
        ("argparse.ArgumentParser(", "configargparse.ArgumentParser("),
    ],
)
def test_a_parser_that_is_not_known_may_take_any_command(tmp_path: Path, old: str, new: str) -> None:
    assert old in _PLAIN
    assert _levels(tmp_path, _PLAIN.replace(old, new), "--arch BC_SSL_tiny --data_path images") == ["high"]


def test_another_program_of_that_name_may_be_meant(tmp_path: Path) -> None:
    found = _levels(tmp_path, _PLAIN, "--arch other --data_path images", **{"old/train.py": "print()\n"})
    assert "high" in found


@pytest.mark.parametrize(
    ("words", "gpus"), [("--arch vit_tiny --data_path a", True), ("--arch b --data_path a", False)]
)
def test_a_job_that_cannot_start_is_none_of_a_programs(tmp_path: Path, words: str, gpus: bool) -> None:
    files = {"train.py": _PLAIN, "data.py": "", "job.sh": _SCRIPT.format(words)}
    report = scan(tmp_path, files)
    (found,) = (one.finding for one in report.results if one.finding.rule.code == "GPU305")
    assert ("4 GPUs" in found.impact.basis) is gpus
