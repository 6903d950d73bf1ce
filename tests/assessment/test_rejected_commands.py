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


_OPTIONS = f"""\
import argparse

def options():
    parser = argparse.ArgumentParser("Options", add_help=False)
{_DECLARED}
    return parser
"""
_IMPORTED = (
    "{import_}\nimport argparse\n"
    + _HEAD
    + """
if __name__ == "__main__":
    {parses}
    train(args)
"""
)


@pytest.mark.parametrize(
    ("import_", "parses"),
    [
        ("from options import options", "args = options().parse_args()"),
        ("import options", "parser = options.options()\n    args = parser.parse_args()"),
        ("from options import options", "args = argparse.ArgumentParser(parents=[options()]).parse_args()"),
        ("from options import options", "args = options()\n    args = args.parse_args()"),
    ],
)
def test_a_parser_may_be_imported(tmp_path: Path, import_: str, parses: str) -> None:
    program = _IMPORTED.format(import_=import_, parses=parses)
    expected = {words: level for some, level in ((_BAD[:3], "low"), (_GOOD[:3], "high")) for words in some}
    files = {"options.py": _OPTIONS}
    found = {words: _levels(tmp_path / str(number), program, words, **files) for number, words in enumerate(expected)}
    assert found == {words: [level] for words, level in expected.items()}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return parser", "    more(parser)\n    return parser"),
        ("    return parser", "    parser.prefix_chars = '+'\n    return parser"),
        ("    return parser", "    return parser if ready else other()"),
        ("def options():", "def options():\n    global parser"),
        ("def options():", "@extended\ndef options():"),
        ("import argparse", "import argparse, sys\nsys.argv.pop()"),
        ("import argparse", "import configargparse as argparse"),
        (
            '    parser.add_argument("--amp"',
            '    if ready: parser.add_argument("--arch2")\n    parser.add_argument("--amp"',
        ),
        (
            '    parser.add_argument("--amp"',
            '    for name in names: parser.add_argument(name)\n    parser.add_argument("-a"',
        ),
    ],
)
def test_an_imported_parser_that_is_not_known_may_take_any_command(tmp_path: Path, old: str, new: str) -> None:
    assert old in _OPTIONS
    program = _IMPORTED.format(import_="from options import options", parses="args = options().parse_args()")
    files = {"options.py": _OPTIONS.replace(old, new)}
    assert _levels(tmp_path, program, "--arch BC_SSL_tiny --data_path images", **files) == ["high"]


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
