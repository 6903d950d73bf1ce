"""What the background module that repairs bring along promises, without PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpulint_fixers.edits.background import template

MakeJob = Callable[..., Any]

START = """\
import os, shutil, sys, time
from pathlib import Path
from background_uploads import upload_in_background, wait_for_uploads

def slow_copy(source, target):
    time.sleep(0.05)
    shutil.copy(source, target)
    print(target, Path(source).name, Path(source).read_text(), flush=True)

def broken(source):
    raise ConnectionError("no route")
"""


@pytest.mark.parametrize(
    ("program", "output", "errors"),
    [
        pytest.param(
            """
for number in range(5):
    Path("last.txt").write_text(str(number))
    upload_in_background(slow_copy, "last.txt", f"{number}.out")
print("trained", flush=True)
""",
            # The third call waits for the first upload, as two copies may wait at most; what has arrived is in order.
            {"0.out last.txt 0", "1.out last.txt 1", "2.out last.txt 2", "3.out last.txt 3", "4.out last.txt 4"},
            "",
            id="each upload sends the file as it was, in order, and all before the end",
        ),
        pytest.param(
            """
Path("last.txt").write_text("x")
upload_in_background(broken, "last.txt")
upload_in_background(slow_copy, "last.txt", target="0.out")
""",
            {"0.out last.txt x"},
            "failed: ConnectionError: no route",
            id="a failure is printed and later uploads go on",
        ),
        pytest.param(
            """
Path("run").mkdir()
Path("run/a.txt").write_text("a")
upload_in_background(lambda source: print(sorted(os.listdir(source))), Path("run"))
wait_for_uploads()
os.chdir("/")
print("waited")
""",
            {"['a.txt']", "waited"},
            "",
            id="folders, and waiting for them",
        ),
        pytest.param(
            """
Path("last.txt").write_text("x")
for source in ("last.txt", Path("last.txt")):
    upload_in_background(lambda source: print(isinstance(source, Path), source.__class__ is str), source)
""",
            {"False True", "True False"},
            "",
            id="a path stays what it was",
        ),
        pytest.param(
            """
Path("last.txt").write_text("x")
upload_in_background(slow_copy, "last.txt", "0.out")
wait_for_uploads()
if os.fork() == 0:
    upload_in_background(slow_copy, "last.txt", "1.out")
    sys.exit()
os.wait()
""",
            {"0.out last.txt x", "1.out last.txt x"},
            "",
            id="a forked child has a worker of its own",
        ),
        pytest.param(
            """
from concurrent.futures import ThreadPoolExecutor

def in_parts(source):
    time.sleep(0.2)
    with ThreadPoolExecutor(2) as parts:
        print(*parts.map(str.upper, "ab"))

Path("last.txt").write_text("x")
upload_in_background(in_parts, "last.txt")
""",
            {"A B"},
            "",
            id="a client that starts threads of its own still can at exit",
        ),
    ],
)
def test_background_uploads(job: MakeJob, program: str, output: set[str], errors: str) -> None:
    made = job({"background_uploads.py": template(), "main.py": START + program})
    out, err = made.run("main.py")
    lines = [line for line in out.splitlines() if line != "trained"]
    assert sorted(lines) == sorted(output)
    assert lines == sorted(lines)
    assert errors in err
    assert bool(err) == bool(errors)
    assert list(made.root.glob("background-uploads-*")) == []
