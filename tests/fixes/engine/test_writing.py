"""Files are written whole or not at all, where they may be written, and only over what was read."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpulint import writing
from gpulint.writing import Change, WriteError, refusal, write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    for path in paths:
        path.write_bytes(b"old")
    return paths


def changes(files: list[Path]) -> list[Change]:
    return [Change(path, b"old", b"new") for path in files]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664])
def test_the_mode_is_kept(fix: Any, tree: Path, mode: int) -> None:
    path = tree / "a.sh"
    path.write_text("WASTE\n")
    path.chmod(mode)
    fix("--apply")
    assert path.read_text() == "FIXED\n"
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser gives files away")
def test_the_owner_is_kept(fix: Any, tree: Path) -> None:
    path = tree / "a.py"
    path.write_text("WASTE\n")
    os.chown(path, 12345, 23456)
    fix("--apply")
    assert path.read_text() == "FIXED\n"
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_a_link_stays_and_its_target_is_written(fix: Any, tree: Path) -> None:
    (tree / "real").mkdir()
    (tree / "real" / "x.txt").write_text("WASTE\n")
    (tree / "a.py").symlink_to("real/x.txt")
    assert fix("--apply")[0] == 0
    assert (tree / "a.py").is_symlink()
    assert (tree / "real" / "x.txt").read_text() == "FIXED\n"


@pytest.mark.parametrize("through", ["file", "folder"])
def test_no_link_leads_out_of_the_project(fix: Any, tree: Path, through: str) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("WASTE\n")
    if through == "file":
        (tree / "a.py").symlink_to(outside / "a.py")
        named = "a.py"
    else:
        (tree / "sub").symlink_to(outside)
        named = "sub/a.py"
    code, _, err = fix("--apply", named)
    assert code == 1
    assert "a link out of the project is not written through" in err
    assert (outside / "a.py").read_text() == "WASTE\n"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_is_read_only_is_named_and_left(fix: Any, tree: Path, what: str) -> None:
    (tree / "sub").mkdir()
    path = tree / "sub" / "a.py"
    path.write_text("WASTE\n")
    (tree / "b.py").write_text("WASTE\n")
    target = path if what == "file" else path.parent
    target.chmod(0o555)
    try:
        code, out, err = fix("--apply")
    finally:
        target.chmod(0o755)
    assert code == 1
    assert "sub/a.py:1:1: TST101 was not fixed: " in err
    assert "read-only" in err
    assert "Applied 1 fix in 1 file." in out
    assert (path.read_text(), (tree / "b.py").read_text()) == ("WASTE\n", "FIXED\n")
    assert names(path.parent) == ["a.py"]


def test_a_full_disk(fix: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tree / "a.py").write_text("WASTE\n")
    monkeypatch.setattr(os, "fsync", full)
    code, out, err = fix("--apply")
    assert code == 1
    assert "a.py: cannot be written: No space left on device" in err
    assert out == "No fixes applied.\n"
    assert (tree / "a.py").read_text() == "WASTE\n"
    assert names(tree) == ["a.py", "gpulint.toml"]


def test_a_file_that_changed_since_it_was_read(files: list[Path], tmp_path: Path) -> None:
    files[1].write_bytes(b"somebody else's")
    with pytest.raises(WriteError, match=r"b\.py: has changed since it was read"):
        write(changes(files), tmp_path)
    assert [path.read_bytes() for path in files] == [b"old", b"somebody else's", b"old"]
    assert names(tmp_path) == ["a.py", "b.py", "c.py"]


def test_a_file_that_is_gone(files: list[Path], tmp_path: Path) -> None:
    files[1].unlink()
    with pytest.raises(WriteError, match=r"b\.py: "):
        write(changes(files), tmp_path)
    assert [files[0].read_bytes(), files[2].read_bytes()] == [b"old", b"old"]
    assert names(tmp_path) == ["a.py", "c.py"]


def test_a_new_file(tmp_path: Path) -> None:
    write([Change(tmp_path / "new.py", None, b"new")], tmp_path)
    assert (tmp_path / "new.py").read_bytes() == b"new"
    with pytest.raises(WriteError, match=r"new\.py: exists already"):
        write([Change(tmp_path / "new.py", None, b"newer")], tmp_path)
    assert (tmp_path / "new.py").read_bytes() == b"new"
    assert names(tmp_path) == ["new.py"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.EIO, "Input/output error")])
@pytest.mark.parametrize("moment", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [False, True])
def test_interruptions_leave_all_or_nothing(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any, moment: int, after: bool
) -> None:
    """At the ``moment``-th file to take its place, before or right after it does; the fourth one is new."""
    put, count = writing._put, 0

    def failing(job: Any) -> None:
        nonlocal count
        count += 1
        if after:
            put(job)
        if count == moment:
            raise error
        if not after:
            put(job)

    monkeypatch.setattr(writing, "_put", failing)
    new = tmp_path / "new.py"
    with pytest.raises((KeyboardInterrupt, WriteError)):
        write([*changes(files), Change(new, None, b"new")], tmp_path)
    assert [path.read_bytes() for path in files] == [b"old"] * 3
    assert names(tmp_path) == ["a.py", "b.py", "c.py"]


def test_interrupted_before_anything_took_its_place(fix: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    (tree / "a.py").write_text("WASTE\n")
    monkeypatch.setattr(os, "fsync", interrupt)
    code, _, err = fix("--apply")
    assert (code, err) == (130, "gpulint: interrupted\n")
    assert (tree / "a.py").read_text() == "WASTE\n"
    assert names(tree) == ["a.py", "gpulint.toml"]


def test_a_new_file_in_a_folder_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "new.py"
    assert refusal(path, tmp_path) is None
    with pytest.raises(WriteError, match=r"new\.py: cannot be written: No such file"):
        write([Change(path, None, b"new")], tmp_path)


_TWO = """
import sys
from pathlib import Path
from gpulint.writing import Change, WriteError, write

root, mine, paths = Path(sys.argv[1]), sys.argv[2].encode(), [Path(sys.argv[1], f"{n}.py") for n in range(40)]
sys.stdin.readline()
for path in paths:
    before = path.read_bytes()
    try:
        write([Change(path, before, before + mine * 100_000)], root)
    except WriteError as error:
        assert "has changed" in str(error), error
"""


def test_two_processes_at_once(tmp_path: Path) -> None:
    """Every file holds what one or both wrote, one after the other, and never a mixture."""
    for number in range(40):
        (tmp_path / f"{number}.py").write_bytes(b"x")
    processes = [
        subprocess.Popen([sys.executable, "-c", _TWO, str(tmp_path), mine], stdin=subprocess.PIPE) for mine in "ab"
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert [process.wait(60) for process in processes] == [0, 0]
    a, b = b"a" * 100_000, b"b" * 100_000
    for number in range(40):
        assert (tmp_path / f"{number}.py").read_bytes() in (b"x" + a, b"x" + b, b"x" + a + b, b"x" + b + a)
    assert len(names(tmp_path)) == 40
