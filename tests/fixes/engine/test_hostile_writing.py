"""A file keeps all that it has besides its content, or is left alone; nothing is written through a link."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulint import attributes, folders, writing
from gpulint.writing import Change, WriteError, remove_leftovers, write

ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in [(1, 6, 2**32 - 1), (2, 4, 1234), (4, 4, 2**32 - 1), (16, 6, 2**32 - 1), (32, 0, 2**32 - 1)]
)
"""rw for the owner, r for user 1234 and the group."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def attribute(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except (OSError, AttributeError):
        pytest.skip(f"no attribute {name} here")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    return path


def change(path: Path) -> Change:
    return Change(path, b"old", b"new")


def test_extended_attributes_and_acls_are_kept(fix: Any, tree: Path) -> None:
    path = tree / "a.py"
    path.write_text("WASTE\n")
    attribute(path, "user.origin", b"x\0y")
    attribute(path, "system.posix_acl_access", ACL)
    before = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    assert fix("--apply")[0] == 0
    assert path.read_text() == "FIXED\n"
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == before


def test_an_acl_that_new_files_get_is_not_added(file: Path) -> None:
    attribute(file.parent, "system.posix_acl_default", ACL)
    mode = file.stat().st_mode
    write([change(file)], file.parent)
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode == mode
    assert "system.posix_acl_access" not in os.listxattr(file)


@pytest.mark.parametrize("call", ["setxattr", "fchown"])
def test_what_cannot_be_kept_is_named(file: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refuse(*arguments: Any) -> None:
        raise PermissionError

    attribute(file, "user.origin", b"x")
    if call == "fchown":
        if os.geteuid() != 0:
            pytest.skip("only the superuser gives files away")
        os.chown(file, 12345, 12345)
    monkeypatch.setattr(attributes.os, call, refuse)
    what = "owner and group" if call == "fchown" else "extended attribute user.origin"
    with pytest.raises(WriteError, match=f"a.py: its {what} cannot be kept; left as it is"):
        write([change(file)], file.parent)
    assert file.read_bytes() == b"old"
    assert names(file.parent) == ["a.py"]


def test_hard_links_are_left_with_the_reason(fix: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    (tree.parent / "other.py").hardlink_to(tree / "a.py")
    (tree / "b.py").write_text("WASTE\n")
    code, out, err = fix("--apply")
    assert code == 1
    assert "a.py:1:1: TST101 was not fixed: " in err
    assert "the file has 2 hard links" in err
    assert "Applied 1 fix in 1 file." in out
    assert (tree.parent / "other.py").read_text() == (tree / "a.py").read_text() == "WASTE\n"


# -- what takes a file's place between the scan and the write -----------------------------------------------------------


def swapped(path: Path, how: str, outside: Path) -> None:
    path.unlink()
    match how:
        case "link":
            path.symlink_to(outside)
        case "hard link":
            path.hardlink_to(outside)
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "other content":
            path.write_bytes(b"mine")


@pytest.mark.parametrize("how", ["link", "folder", "pipe", "other content", "nothing"])
@pytest.mark.parametrize("late", [False, True])
def test_what_took_the_place_of_a_file_is_left_alone(
    file: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, how: str, late: bool
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "victim"
    outside.write_bytes(b"old")
    if late:
        stage = writing._stage

        def swapping(job: Any, **options: Any) -> None:
            stage(job, **options)
            swapped(file, how, outside)

        monkeypatch.setattr(writing, "_stage", swapping)
    else:
        refusal = writing.refusal

        def checked(path: Path, root: Path) -> str | None:
            reason = refusal(path, root)
            swapped(file, how, outside)
            return reason

        monkeypatch.setattr(writing, "refusal", checked)
    with pytest.raises(WriteError, match=r"a\.py|victim"):
        write([change(file)], file.parent)
    assert outside.read_bytes() == b"old"
    assert names(outside.parent) == ["victim"]
    assert [name for name in names(file.parent) if name != "a.py"] == []
    if how == "other content":
        assert file.read_bytes() == b"mine"
    elif how == "link":
        assert file.is_symlink()


def test_a_folder_that_a_link_replaced_is_not_entered(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.py").write_bytes(b"old")
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "a.py").write_bytes(b"old")
    opening = folders.Folder.__init__

    def swapping(self: Any, root: Path, path: Path) -> None:
        if path == folder:
            shutil.rmtree(folder)
            folder.symlink_to(outside)
        opening(self, root, path)

    monkeypatch.setattr(folders.Folder, "__init__", swapping)
    with pytest.raises(WriteError, match=r"a\.py: cannot be written"):
        write([change(folder / "a.py")], tmp_path)
    assert (outside / "a.py").read_bytes() == b"old"
    assert names(outside) == ["a.py"]


def test_a_folder_that_a_link_replaces_while_files_are_written(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.py").write_bytes(b"old")
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "a.py").write_bytes(b"old")
    put = writing._put

    def swapping(job: Any) -> None:
        folder.rename(tmp_path / "moved")
        folder.symlink_to(outside)
        put(job)

    monkeypatch.setattr(writing, "_put", swapping)
    write([change(folder / "a.py")], tmp_path)
    assert (outside / "a.py").read_bytes() == b"old"
    assert (tmp_path / "moved" / "a.py").read_bytes() == b"new"


@pytest.mark.parametrize("target", ["nothing", "../outside", "inside"])
def test_new_files_are_not_made_through_links(tmp_path: Path, target: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "new.py").symlink_to(target)
    with pytest.raises(WriteError, match=r"exists already|a link out of the project"):
        write([Change(root / "new.py", None, b"new")], root)
    assert names(tmp_path) == ["root"]
    assert names(root) == ["new.py"]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("gpulint-baseline.json", ("baseline", "create")),
        ("gpulint-baseline.json", ("baseline", "create", "--force")),
        ("gpulint.toml", ("init",)),
        ("pyproject.toml", ("init",)),
        ("out.json", ("scan", "--no-cache", "--output-format", "json", "--output-file", "out.json")),
    ],
)
@pytest.mark.parametrize("exists", [False, True])
def test_no_command_writes_through_a_link_out_of_the_tree(
    repairs: Any, tree: Path, name: str, command: tuple[str, ...], exists: bool
) -> None:
    from gpulint.cli import main

    outside = tree.parent / "outside"
    if exists:
        outside.write_text("")
    (tree / "gpulint.toml").unlink()
    (tree / ".git").mkdir()
    (tree / "a.py").write_text("WASTE\n")
    (tree / name).symlink_to(outside)
    code = main((*command, "--select", "TST101") if command[0] != "init" else command)
    assert code in (0, 1, 2)
    assert (outside.read_text() if outside.exists() else None) == ("" if exists else None)


def test_a_pipe_in_the_place_of_a_baseline_is_not_read(repairs: Any, tree: Path) -> None:
    from gpulint.cli import main

    os.mkfifo(tree / "gpulint-baseline.json")
    assert main(("baseline", "create", "--force")) == 2
    assert stat.S_ISFIFO((tree / "gpulint-baseline.json").stat().st_mode)


# -- no room, no permission ---------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if made.returncode != 0:
        pytest.skip("cannot mount a file system here")
    yield folder
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=False, capture_output=True)
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    paths = [small_disk / f"{number}.py" for number in range(3)]
    for path in paths:
        path.write_bytes(b"a" * 60_000)
    changes = [Change(path, b"a" * 60_000, b"b" * 60_000) for path in paths]
    with pytest.raises(WriteError, match="cannot be written: No space left on device"):
        write(changes, small_disk)
    assert [path.read_bytes() for path in paths] == [b"a" * 60_000] * 3
    assert names(small_disk) == ["0.py", "1.py", "2.py"]
    write(changes[:1], small_disk)
    assert paths[0].read_bytes() == b"b" * 60_000


def test_a_read_only_file_system(small_disk: Path, fix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (small_disk / "gpulint.toml").write_text("")
    (small_disk / "a.py").write_text("WASTE\n")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    monkeypatch.chdir(small_disk)
    code, out, err = fix("--apply")
    assert code == 1
    assert "read-only" in err.lower()
    assert out == "No fixes applied.\n"


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"old")
    program = (
        "import sys; from pathlib import Path; from gpulint.writing import *\n"
        "try:\n    write([Change(Path(sys.argv[1]), b'old', b'new' * 1000)], Path(sys.argv[1]).parent)\n"
        "except WriteError as error:\n    sys.exit(str(error))"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, preexec_fn=limit)
    assert "a.py: cannot be written: File too large" in done.stderr
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["a.py"]


# -- signals and what they leave ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_wait_for_what_belongs_together(tmp_path: Path, number: signal.Signals) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_bytes(b"old")
    program = (
        "import os, sys; from pathlib import Path; from gpulint import writing\n"
        "put = writing._put\n"
        f"def signalled(job):\n    put(job)\n    os.kill(os.getpid(), {int(number)})\n"
        "writing._put = signalled\n"
        "root = Path(sys.argv[1])\n"
        "writing.write([writing.Change(root / n, b'old', b'new') for n in ('a.py', 'b.py')], root)\n"
        "print('went on')"
    )

    def heed() -> None:
        signal.signal(number, signal.SIG_DFL)  # whoever started the tests may have it ignored, as nohup does

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, preexec_fn=heed
    )
    assert done.returncode == -number
    assert done.stdout == ""
    assert [(tmp_path / name).read_bytes() for name in ("a.py", "b.py")] == [b"new", b"new"]
    assert names(tmp_path) == ["a.py", "b.py"]


def test_what_a_killed_run_left_is_removed(fix: Any, tree: Path) -> None:
    (tree / "sub").mkdir()
    (tree / "sub" / "a.py").write_text("WASTE\n")
    left = tree / "sub" / ".gpulint-0123456789abcdef.tmp"
    left.hardlink_to(tree / "sub" / "a.py")
    kept = [".gpulint-notes.tmp", ".gpulint-0123456789abcdef.tmp.bak", ".gpulint-0123456789ABCDEF.tmp"]
    for name in kept:
        (tree / "sub" / name).write_text("mine")
    (tree / "sub" / ".gpulint-fedcba9876543210.tmp").symlink_to("a.py")
    fix()
    assert left.exists()
    assert fix("--apply")[0] == 0
    assert (tree / "sub" / "a.py").read_text() == "FIXED\n"
    assert names(tree / "sub") == sorted([*kept, ".gpulint-fedcba9876543210.tmp", "a.py"])


def test_what_a_running_gpulint_writes_is_not_removed(tmp_path: Path) -> None:
    left = tmp_path / ".gpulint-0123456789abcdef.tmp"
    left.write_text("in use")
    with folders.Folder(tmp_path.resolve(), tmp_path.resolve()) as other:
        assert other.lock()
        remove_leftovers([], tmp_path)
        assert left.exists()
    remove_leftovers([], tmp_path)
    assert not left.exists()


def test_leftovers_out_of_the_project_stay(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / ".gpulint-0123456789abcdef.tmp").write_text("")
    (root / "sub").symlink_to(outside)
    remove_leftovers([root / "sub"], root)
    assert names(outside) == [".gpulint-0123456789abcdef.tmp"]
