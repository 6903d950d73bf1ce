"""Archives that a job unpacks on its node's own disk: at the same time, and all there when the program starts."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeJob = Callable[..., Any]

HEAD = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH --cpus-per-task=4\n"
TRAIN = "import torch\n\ntorch.nn.Linear(2, 2).cuda()\n"
TAR = """\
#!/bin/bash
# The real tar; notes whether another one runs meanwhile.
touch "$MARKS/$$"
for _ in $(seq "$PATIENCE"); do
  [ "$(ls "$MARKS" | wc -l)" -ge 2 ] && touch "$MARKS.together" && break
  [ -e "$MARKS.together" ] && break
  sleep 0.05
done
PATH=/usr/bin:/bin tar "$@"
rm "$MARKS/$$"
"""


def test_the_program_finds_what_it_found_before_and_archives_overlap(job: MakeJob, tmp_path: Path) -> None:
    lines = (
        "mkdir -p $SLURM_TMPDIR/a $SLURM_TMPDIR/b\n"
        "tar -xf store/a.tar -C $SLURM_TMPDIR/a\n"
        "tar -xf store/b.tar -C $SLURM_TMPDIR/b\n"
    )
    listing = 'find $SLURM_TMPDIR -type f | sort | sed "s#$SLURM_TMPDIR##"\n'
    made = job({"train.py": TRAIN, "job.sh": f"{HEAD}{lines}python train.py\n"})
    before = made.text("job.sh")
    assert made.repair("GPU332") == 2
    after = made.text("job.sh")
    (tmp_path / "store").mkdir()
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(name)
        with tarfile.open(tmp_path / "store" / f"{name}.tar", "w") as archive:
            archive.add(tmp_path / f"{name}.txt", f"{name}.txt")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tar").write_text(TAR)
    (tmp_path / "bin/tar").chmod(0o755)
    found = {}
    for name, text, patience in (("before", before, "2"), ("after", after, "400")):
        (tmp_path / name).mkdir()
        marks = tmp_path / f"{name}-marks"
        marks.mkdir()
        environment = {
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "SLURM_TMPDIR": str(tmp_path / name),
            "MARKS": str(marks),
            "PATIENCE": patience,
        }
        script = text.replace("python train.py\n", listing)
        ran = subprocess.run(["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True)
        found[name] = ran.stdout
    assert found["before"] == found["after"] == "/a/a.txt\n/b/b.txt\n"
    together = [(tmp_path / f"{name}-marks.together").exists() for name in ("before", "after")]
    assert together == [False, True]


@pytest.mark.parametrize(
    "lines",
    [
        "set -e\ntar -xf a.tar -C $TMPDIR/a\ntar -xf b.tar -C $TMPDIR/b",
        "watch nvidia-smi > load.txt &\ntar -xf a.tar -C $TMPDIR/a\ntar -xf b.tar -C $TMPDIR/b",
        "tar -xf all.tar -C $TMPDIR/a\ntar -xf $TMPDIR/a/inner.tar -C $TMPDIR/b",
        "tar -xf all.tar -C $TMPDIR/a\ntar -xf b.tar -C $TMPDIR/a/deeper",
        "tar -xf a.tar -C $TMPDIR/a && tar -xf b.tar -C $TMPDIR/b",
        "tar -xf a.tar -C $TMPDIR/a\n./check $TMPDIR/a\ntar -xf b.tar -C $TMPDIR/b",
        "cp all.tar $TMPDIR\ntar -xf $TMPDIR/all.tar -C $TMPDIR\ntar -xf $TMPDIR/inner.tar -C $TMPDIR",
        "for f in *.tar; do\n  tar -xf $f -C $TMPDIR/a\ndone",
    ],
)
def test_what_depends_on_another_or_may_stop_the_job_stays_in_order(job: MakeJob, lines: str) -> None:
    made = job({"train.py": TRAIN, "job.sh": f"{HEAD}{lines}\npython train.py\n"})
    results = made.scan("GPU332")
    assert results and not any(hasattr(result.fix, "edits") for result in results)


@pytest.mark.parametrize(
    "lines",
    [
        "cp store/a.zip store/b.tar.gz $TMPDIR\nunzip -q $TMPDIR/a.zip -d $TMPDIR\ntar -xzf $TMPDIR/b.tar.gz -C $TMPDIR",
        "A=/store/a.zip\ncp $A $TMPDIR\nscp host:b.tar $TMPDIR/\nunzip $TMPDIR/a.zip -d $TMPDIR\ntar xf $TMPDIR/b.tar -C $TMPDIR",
        "cp a.zip $TMPDIR/one.zip\ncp b.zip $TMPDIR/two.zip\nunzip $TMPDIR/one.zip -d $TMPDIR\nunzip $TMPDIR/two.zip -d $TMPDIR",
    ],
)
def test_archives_that_were_copied_come_from_no_other_archive(job: MakeJob, lines: str) -> None:
    made = job({"train.py": TRAIN, "job.sh": f"{HEAD}{lines}\npython train.py\n"})
    assert made.repair("GPU332") >= 2
    assert made.text("job.sh").endswith(" &\nwait\npython train.py\n")
    assert made.text("job.sh").count(" &\n") == 2


def test_tasks_of_a_node_have_cores_for_the_script(job: MakeJob) -> None:
    head = HEAD.replace("--cpus-per-task=4", "--nodes=1\n#SBATCH --ntasks-per-node=8")
    lines = "tar -xf a.tar -C $TMPDIR/a\ntar -xf b.tar -C $TMPDIR/b"
    made = job({"train.py": TRAIN, "job.sh": f"{head}{lines}\npython train.py\n"})
    assert made.repair("GPU332") == 2


def test_a_job_with_one_core_gains_nothing(job: MakeJob) -> None:
    head = HEAD.replace("--cpus-per-task=4", "--time=1:00:00")
    lines = "tar -xf a.tar -C $TMPDIR/a\ntar -xf b.tar -C $TMPDIR/b"
    made = job({"train.py": TRAIN, "job.sh": f"{head}{lines}\npython train.py\n"})
    results = made.scan("GPU332")
    assert not any(hasattr(result.fix, "edits") for result in results)
    assert "nor can it run beside the others: the job has one core" in results[0].fix.reason
