"""Programs that import a module of their own with a syntax error cost little: nobody can run them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, levels

BROKEN = "class Net:\n        def run(self):\n            pass\n    def stop(self):\n        pass\n"
PROGRAM = HEAD + "{line}\n" + IMAGES + TRAINING


@pytest.mark.parametrize(
    ("line", "parts", "level"),
    [
        ("from parts import Net", BROKEN, "low"),
        ("from lib.more import Net", BROKEN, "low"),  # through another module
        ("from parts import Net", "class Net:\n    pass\n", "high"),
        ("try:\n    from parts import Net\nexcept SyntaxError:\n    Net = None", BROKEN, "high"),
        ("if args.parts:\n    from parts import Net", BROKEN, "high"),
        ("def run():\n    from parts import Net", BROKEN, "high"),
        ("from parts import Net", "{{ header }}\n" + BROKEN, "high"),  # a template
        ("from parts import Net", 'print "a"\n' + BROKEN, "high"),  # Python 2
        ("from parts import Net", BROKEN + "size = xrange(0777)\n", "high"),
        ("from __future__ import print_function\nfrom parts import Net", BROKEN, "high"),
    ],
)
def test_a_program_cannot_start_whose_modules_have_syntax_errors(
    tmp_path: Path, line: str, parts: str, level: str
) -> None:
    files = {"net.py": "", "parts.py": parts, "lib/__init__.py": "", "lib/more.py": "from parts import Net\n"}
    assert levels(tmp_path, {**files, "train.py": PROGRAM.format(line=line)}, "GPU303") == [level]


@pytest.mark.parametrize(
    ("command", "parts", "level"),
    [
        ("torchrun --nproc_per_node 4 train.py", BROKEN, "low"),
        ("torchrun --nproc_per_node 4 train.py", "class Net:\n    pass\n", "high"),
        ("torchrun --nproc_per_node 4 train.py\npython other.py", BROKEN, "high"),
    ],
)
def test_so_does_a_job_that_starts_it(tmp_path: Path, command: str, parts: str, level: str) -> None:
    program = PROGRAM.format(line="from parts import Net")
    files = {
        "net.py": "",
        "parts.py": parts,
        "train.py": program,
        "other.py": PROGRAM.format(line=""),
        "job.sh": f"#!/bin/bash\n#SBATCH --gres=gpu:4\nexport CUDA_LAUNCH_BLOCKING=1\n{command}\n",
    }
    assert levels(tmp_path, files, "GPU414") == [level]
