"""A scanned tree that nobody trusts: the cache writes and removes nothing elsewhere, and believes nothing from there."""

from __future__ import annotations

import errno
import hmac
import json
import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulint import engine
from gpulint.cache import Cache
from gpulint.cache import folder as cache_folder
from gpulint.cache.folder import Folder, opened
from gpulint.cli import main

WASTE = "import torch\ntorch.autograd.set_detect_anomaly(True)\n"
TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Made by gpulint; `gpulint clean` removes it.\n"
NAME = f"{'0a' * 20}.json"
Scan = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with one finding; the user's cache folder is beside it."""
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[tool.gpulint]\n")
    (folder / "train.py").write_text(WASTE)
    (tmp_path / "xdg").mkdir()
    monkeypatch.delenv("GPULINT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def users(tree: Path) -> Path:
    return tree.parent / "xdg" / "gpulint"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each scan that is not answered by the cache."""
    found: list[int] = []
    real = engine.run
    monkeypatch.setattr(engine, "run", lambda *args, **more: (found.append(1), real(*args, **more))[1])
    return found


@pytest.fixture
def scan(capsys: pytest.CaptureFixture[str], runs: list[int]) -> Scan:
    def call(*options: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["scan", "--output-format", "concise", *options])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder that has nothing to do with the scanned tree and looks like a cache."""
    folder = tmp_path / "victim"
    folder.mkdir(0o755)
    for number in range(60):
        (folder / f"{number:040x}.json").write_text("mine")
        (folder / f"notes-{number}.json").write_text("mine")
    (folder / "CACHEDIR.TAG").write_text(TAG)
    (folder / ".gitignore").write_text("mine")
    return folder


def content(folder: Path) -> dict[str, Any]:
    """Everything below a folder, with times of change."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        info = path.lstat()
        text = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[str(path)] = info.st_mode, info.st_mtime_ns, info.st_nlink, text
    return found


def only_entry(folder: Path) -> Path:
    (found,) = folder.glob("*.json")
    return found


def _linked(place: Path, victim: Path) -> None:
    place.symlink_to(victim)


def _linked_relatively(place: Path, victim: Path) -> None:
    place.symlink_to(os.path.relpath(victim, place.parent))


def _linked_to_a_file(place: Path, victim: Path) -> None:
    place.symlink_to(victim / ".gitignore")


def _dangling(place: Path, victim: Path) -> None:
    place.symlink_to(victim / "new")


def _loop(place: Path, victim: Path) -> None:
    place.symlink_to(place)


def _parent_linked(place: Path, victim: Path) -> None:
    place.parent.rmdir()
    place.parent.symlink_to(victim)


def _parent_dangling(place: Path, victim: Path) -> None:
    place.parent.rmdir()
    place.parent.symlink_to(victim / "new")


def _a_file(place: Path, victim: Path) -> None:
    place.write_text("x")


def _a_fifo(place: Path, victim: Path) -> None:
    os.mkfifo(place)


def _holding(name: str) -> Callable[[Path, Path], None]:
    def make(place: Path, victim: Path) -> None:
        place.mkdir()
        if name != "CACHEDIR.TAG":
            (place / "CACHEDIR.TAG").write_text(TAG)
        (place / name).symlink_to(victim / ".gitignore")

    return make


def _holding_a_dangling_link(place: Path, victim: Path) -> None:
    place.mkdir()
    (place / ".gitignore").symlink_to(victim / "new")


def _with_files_of_the_project(place: Path, victim: Path) -> None:
    place.mkdir()
    for number in range(60):
        (place / f"{number:040x}.json").write_text("data of the project")
    (place / "train.json").write_text("{}")


def _writable_by_all(place: Path, victim: Path) -> None:
    place.mkdir()
    place.chmod(0o777)


@pytest.mark.parametrize("by", ["setting", "option", "variable"])
@pytest.mark.parametrize(
    "make",
    [
        _linked,
        _linked_relatively,
        _linked_to_a_file,
        _dangling,
        _loop,
        _parent_linked,
        _parent_dangling,
        _a_file,
        _a_fifo,
        _holding("CACHEDIR.TAG"),
        _holding(".gitignore"),
        _holding("key"),
        _holding(NAME),
        _holding("other"),
        _holding_a_dangling_link,
        _with_files_of_the_project,
        _writable_by_all,
    ],
)
def test_a_folder_that_cannot_be_trusted_is_not_used(
    tree: Path, users: Path, victim: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, make: Any, by: str
) -> None:
    place = tree / ".cache" / "gpulint"
    place.parent.mkdir()
    make(place, victim)
    options: list[str] = []
    if by == "setting":
        (tree / "pyproject.toml").write_text('[tool.gpulint]\ncache-dir = ".cache/gpulint"\n')
    elif by == "option":
        options = ["--cache-dir", ".cache/gpulint"]
    else:
        monkeypatch.setenv("GPULINT_CACHE_DIR", str(place))
    code, out, err = scan("--no-cache")
    before, inside = content(victim), content(tree)
    assert scan(*options)[:2] == (code, out)
    warning = scan(*options)[2].removesuffix(err)
    assert warning.startswith("gpulint: warning: the cache is disabled: ")
    assert warning.count("\n") == 1
    assert str(tree / ".cache") in warning
    assert content(victim) == before
    assert content(tree) == inside
    assert "GPU" in out


def test_a_path_that_enters_the_tree_through_a_link_is_in_the_tree(tree: Path, victim: Path, scan: Scan) -> None:
    (tree.parent / "alias").symlink_to(tree)
    (tree / ".cache").symlink_to(victim)
    before = content(victim)
    assert ".cache is a symbolic link" in scan("--cache-dir", str(tree.parent / "alias" / ".cache" / "gpulint"))[2]
    assert content(victim) == before


@pytest.mark.parametrize("option", ["{tree}", "{tree}/src", "{home}", "/"])
def test_a_folder_with_other_files_is_not_used(
    tree: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    (tree / "src").mkdir()
    (tree / "src" / "a.json").write_text("{}")
    home = tree.parent / "home"
    home.mkdir()
    (home / ".bashrc").touch()
    before = content(tree), content(home)
    err = scan("--cache-dir", option.format(tree=tree, home=home))[2]
    assert "contains" in err
    assert (content(tree), content(home)) == before


@pytest.mark.parametrize(
    "value",
    r""" ".." "../x" "a/../../x" "/tmp/x" "/" "~" "~/x" "." "a/.." "" 3 true ["a"] "a\u0000b" "a\nb" "\u001b[31m" """.split(),
)
def test_a_setting_names_no_place_outside_of_the_tree(tree: Path, scan: Scan, value: str) -> None:
    (tree / "pyproject.toml").write_text(f"[tool.gpulint]\ncache-dir = {value}\n")
    code, out, err = scan()
    assert (code, out) == (2, "")
    assert f"{tree / 'pyproject.toml'}:2: 'cache-dir' must be" in err
    assert err.count("\n") == 1


def test_a_settings_file_from_elsewhere_cannot_choose_the_folder(tree: Path, scan: Scan) -> None:
    other = tree.parent / "other"
    other.mkdir()
    (other / "gpulint.toml").write_text('cache-dir = "x"\n')
    code, _, err = scan("--config", str(other / "gpulint.toml"))
    assert code == 2
    assert "other/gpulint.toml: 'cache-dir'" in err
    assert not (other / "x").exists()
    (tree / "ci").mkdir()
    (tree / "ci" / "gpulint.toml").write_text('cache-dir = "x"\n')
    assert scan("--config", "ci/gpulint.toml", "train.py")[0] == 1
    assert only_entry(tree / "ci" / "x")


def test_an_old_cache_in_the_tree_is_left_alone(tree: Path, victim: Path, scan: Scan) -> None:
    before = content(victim)
    (tree / ".gpulint_cache").symlink_to(victim)
    first = scan("--show-notes")
    (tree / ".gpulint_cache").unlink()
    (tree / ".gpulint_cache").mkdir()
    (tree / ".gpulint_cache" / "other.py").write_text(WASTE)
    inside = content(tree / ".gpulint_cache")
    assert scan()[:2] == first[:2], "nothing in it is code of the project"
    assert scan()[:2] == first[:2]
    assert content(victim) == before
    assert content(tree / ".gpulint_cache") == inside


def _clean(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["clean"])
    return code, "".join(capsys.readouterr())


@pytest.mark.parametrize("make", [_linked, _linked_to_a_file, _dangling, _loop, _a_file, _a_fifo])
def test_clean_follows_no_link(
    tree: Path, users: Path, victim: Path, scan: Scan, capsys: pytest.CaptureFixture[str], make: Any
) -> None:
    scan()
    make(tree / ".gpulint_cache", victim)
    before = content(victim)
    code, said = _clean(capsys)
    assert code == 2
    assert f"{tree / '.gpulint_cache'} is" in said
    assert content(victim) == before
    assert not users.exists()


def test_clean_removes_its_own_files_only(
    tree: Path, users: Path, victim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tree / ".gpulint_cache"
    old.mkdir()
    (old / "CACHEDIR.TAG").write_text(TAG)
    (old / NAME).write_text("{}")
    (old / f"{'0b' * 20}.json").symlink_to(victim / ".gitignore")
    (old / f"{'0c' * 20}.json").mkdir()
    (old / f"{'0d' * 20}.json").hardlink_to(victim / "notes-1.json")
    (old / "linked").symlink_to(victim)
    (old / "mine.json").write_text("mine")
    code, said = _clean(capsys)
    assert code == 0
    assert "kept with 4 entries that gpulint did not write" in said
    assert sorted(path.name for path in old.iterdir()) == sorted(
        ["CACHEDIR.TAG", f"{'0b' * 20}.json", f"{'0c' * 20}.json", "linked", "mine.json"]
    )
    assert (victim / "notes-1.json").read_text() == "mine"
    assert len(list(victim.iterdir())) == 122


def test_the_folder_and_its_files_are_the_users_alone(tree: Path, users: Path, scan: Scan) -> None:
    old = os.umask(0)
    try:
        scan()
    finally:
        os.umask(old)
    assert stat.S_IMODE(users.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in users.iterdir()} == {0o600}


def test_the_folder_of_another_user_is_not_used(
    tree: Path, users: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    code, out, err = scan()
    assert (code, "GPU" in out) == (1, True)
    assert f"{users} belongs to another user" in err
    assert not list(users.iterdir())


def _sign(text: bytes, key: str, secret: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + b"\n" + text, "sha256").hex().encode() + b"\n" + text


def _keys(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that scans look for from now on."""
    from gpulint import cache

    found: list[str] = []
    real = cache.key_of
    monkeypatch.setattr(cache, "key_of", lambda *args: (found.append(real(*args)), found[-1])[1])
    return found


def test_a_repository_cannot_bring_an_entry(
    tree: Path, users: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, runs: list[int]
) -> None:
    """Somebody else makes an entry for the very same scan that reports nothing, and commits it with the key."""
    (tree / "pyproject.toml").write_text('[tool.gpulint]\ncache-dir = "c"\n')
    (tree / "c").mkdir(0o700)
    keys = _keys(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tree.parent / "elsewhere"))
    (tree.parent / "elsewhere").mkdir()
    fresh = scan()
    entry = only_entry(tree / "c")
    secret = (tree.parent / "elsewhere" / "gpulint" / "key").read_bytes()
    text = json.loads(entry.read_bytes().partition(b"\n")[2]) | {"results": [], "asked": {}, "code": {}}
    entry.write_bytes(_sign(json.dumps(text).encode(), keys[-1], secret))
    assert scan()[1] == "", "whoever has the key is believed"
    shutil.copy(tree.parent / "elsewhere" / "gpulint" / "key", tree / "c" / "key")
    (tree / "c" / "key").chmod(0o600)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tree.parent / "xdg"))
    assert scan() == fresh
    assert len(runs) == 2
    assert scan() == fresh
    assert len(runs) == 2, "the entry was replaced"


@pytest.mark.parametrize("git", [True, False])
def test_a_repository_that_is_the_home_cannot_bring_an_entry(
    tree: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, runs: list[int], git: bool
) -> None:
    """CI systems that set HOME to the checkout: its cache folder is part of the repository."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tree / ".cache"))
    (tree / ".cache").mkdir()
    project = tree
    if git:
        (tree / ".git").mkdir()
        project = tree / "project"
        project.mkdir()
        (tree / "train.py").rename(project / "train.py")
        (project / "gpulint.toml").touch()
    before = content(tree)
    fresh = scan(str(project), "--no-cache")
    assert scan(str(project)) == scan(str(project)) == fresh
    assert len(runs) == 3
    assert content(tree) == before
    err = scan(str(project), "--cache-dir", str(tree / "c"))[2]
    assert "no cache folder outside of it for the key" in err
    assert content(tree) == before


def test_a_cache_in_another_repository_has_its_key_elsewhere(tree: Path, users: Path, scan: Scan) -> None:
    other = tree.parent / "other"
    (other / ".git").mkdir(parents=True)
    scan("--cache-dir", str(other / "c"))
    assert only_entry(other / "c")
    assert not (other / "c" / "key").exists()
    assert (users / "key").exists()


@pytest.mark.parametrize("spoil", ["mode", "short", "link", "folder", "fifo"])
def test_a_key_that_others_could_know_is_replaced(tree: Path, users: Path, scan: Scan, spoil: str, runs: Any) -> None:
    fresh = scan()
    key = users / "key"
    old = key.read_bytes()
    if spoil == "mode":
        key.chmod(0o644)
    else:
        key.unlink()
        if spoil == "short":
            key.write_bytes(old[:5])
            key.chmod(0o600)
        elif spoil == "link":
            (tree / "key").write_bytes(old)
            key.symlink_to(tree / "key")
        elif spoil == "folder":
            key.mkdir()
        else:
            os.mkfifo(key)
    assert scan()[:2] == fresh[:2]
    assert len(runs) == 2
    if spoil in ("mode", "short", "fifo"):
        assert key.read_bytes() not in (old, old[:5])
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


BROKEN = [b"", b"{", b"null", b"[]", b"0", b'"x"', b"[" * 200_000, b'{"a":' * 100_000, b"\xff\xfe", b"\0" * 1000]
BROKEN += [b'{"asked":[],"code":{}}', b'{"asked":{"data":{"x":1}},"code":{}}', b'{"asked":{"nothing":{"x":1}}}']
BROKEN += [b"9" * 10_000, b'{"asked":{},"code":{"/dev/null\\u0000":""}}', b'{"asked":{},"code":{}}']


@pytest.mark.parametrize("signed", [False, True])
def test_a_broken_entry_is_as_good_as_none(
    tree: Path, users: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, runs: list[int], signed: bool
) -> None:
    """Even one that has the right code, as another version of gpulint may write it."""
    keys = _keys(monkeypatch)
    fresh = scan()
    entry, secret = only_entry(users), (users / "key").read_bytes()
    for text in BROKEN:
        entry.write_bytes(_sign(text, keys[-1], secret) if signed else text)
        runs.clear()
        assert scan() == fresh
        assert len(runs) == 1
        assert scan() == fresh
        assert len(runs) == 1, "the entry was replaced"


def test_no_changed_byte_of_an_entry_is_believed(
    tree: Path, users: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = _keys(monkeypatch)
    scan()
    entry, chance = only_entry(users), random.Random(1)
    whole = entry.read_bytes()

    def believed() -> bool:
        with opened(users, users.parent) as folder:
            return Cache(folder, folder.key()).get(keys[-1]) is not None

    assert believed()
    for at in [*range(80), *(chance.randrange(len(whole)) for _ in range(1000))]:
        cut, put = chance.randrange(40), chance.randbytes(chance.randrange(4))
        changed = whole[:at] + put + whole[at + cut :]
        entry.write_bytes(changed)
        assert believed() == (changed == whole)
        entry.write_bytes(whole[:at])
        assert not believed()
    entry.write_bytes(whole)
    other = users / f"{keys[-1][:39]}{'0' if keys[-1][39] != '0' else '1'}.json"
    other.write_bytes(whole)
    with opened(users, users.parent) as folder:
        key = keys[-1][:39] + other.name[39] + keys[-1][40:]
        assert Cache(folder, folder.key()).get(key) is None, "it is of another scan"


def test_an_entry_that_is_not_believed_has_no_file_read(
    tree: Path, users: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = scan()
    os.mkfifo(tree.parent / "fifo")
    entry = only_entry(users)
    code, _, text = entry.read_bytes().partition(b"\n")
    asked = {"data": {str(tree.parent / "fifo"): None}}
    entry.write_bytes(code + b"\n" + json.dumps(json.loads(text) | {"asked": asked}).encode())
    assert scan() == fresh, "whoever reads the FIFO waits for ever"


def _directory(entry: Path, victim: Path) -> None:
    entry.mkdir()


def _fifo(entry: Path, victim: Path) -> None:
    os.mkfifo(entry)


def _huge(entry: Path, victim: Path) -> None:
    with entry.open("wb") as stream:
        stream.truncate(10**12)


def _hard_link(entry: Path, victim: Path) -> None:
    entry.hardlink_to(victim / "notes-1.json")


def _unreadable(entry: Path, victim: Path) -> None:
    entry.touch(0o000)


@pytest.mark.parametrize("make", [_directory, _fifo, _huge, _hard_link, _unreadable])
def test_an_entry_is_a_file_of_a_possible_size(
    tree: Path, users: Path, victim: Path, scan: Scan, make: Any, runs: list[int]
) -> None:
    fresh = scan()
    entry = only_entry(users)
    entry.unlink()
    make(entry, victim)
    before = content(victim)
    assert scan() == fresh
    assert scan() == fresh
    assert len(runs) == (3 if make is _directory else 2), "what can be replaced was"
    texts = [text for *_, text in content(victim).values()]
    assert texts == [text for *_, text in before.values()]


def test_shrinking_leaves_other_files_and_links_alone(
    tree: Path, users: Path, victim: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_folder, "MAX_ENTRIES", 1)
    scan()
    names = ["notes.json", "notes.tmp", f"{'0A' * 20}.json", f"{'0a' * 20}.json5", f"x{'0a' * 20}.json"]
    for name in (*names, NAME, f"{'0b' * 20}.1.tmp"):
        (users / name).write_text("x")
        os.utime(users / name, (0, 0))
    (users / f"{'0c' * 20}.json").mkdir()
    (tree / "train.py").write_text(f"{WASTE}# changed\n")
    scan()
    entries = {path.name for path in users.iterdir()} - {"key", "CACHEDIR.TAG", ".gitignore"}
    left = {max(users.glob(pattern), key=os.path.getmtime).name for pattern in ("*.json", "*.answers")}
    assert entries - {*names, f"{'0c' * 20}.json"} == left
    assert {*names, f"{'0c' * 20}.json"} <= entries


@pytest.mark.parametrize("moment", ["check", "key", "write"])
def test_a_folder_that_is_swapped_for_a_link_meanwhile(
    tree: Path, users: Path, victim: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before = content(victim)
    real = getattr(Folder, moment)

    def swap(folder: Folder, *args: Any) -> Any:
        if not users.is_symlink():
            users.rename(tree.parent / "moved")
            users.symlink_to(victim)
        return real(folder, *args)

    monkeypatch.setattr(Folder, moment, swap)
    assert scan()[0] == 1
    assert content(victim) == before


def test_a_folder_that_is_swapped_before_it_is_opened(
    tree: Path, users: Path, victim: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan()
    before = content(victim)
    real = os.open

    def swap(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if path == "gpulint":
            users.rename(tree.parent / "moved")
            users.symlink_to(victim)
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", swap)
    code, _, err = scan()
    assert code == 1
    assert f"{users} is a symbolic link" in err
    assert content(victim) == before


@pytest.mark.parametrize("home", ["absent", "a-file", "a-file/below", "read-only"])
def test_without_a_place_for_it_there_is_no_cache(
    tree: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, runs: list[int], home: str
) -> None:
    fresh = scan("--no-cache")
    (tree.parent / "a-file").touch()
    (tree.parent / "read-only").mkdir()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tree.parent / home))
    if home == "read-only":
        monkeypatch.setattr(os, "mkdir", _read_only)
    before = content(tree.parent)
    assert scan() == scan() == fresh
    assert len(runs) == 3
    assert content(tree.parent) == before


def _read_only(*args: object, **more: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_read_only_cache_is_used_as_it_is(
    tree: Path, users: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, runs: list[int]
) -> None:
    fresh = scan()
    monkeypatch.setattr(Folder, "write", _read_only)
    monkeypatch.setattr(os, "unlink", _read_only)
    assert scan() == fresh
    assert len(runs) == 1
    (tree / "other.py").write_text(WASTE)
    assert scan() == scan("--no-cache")
    users.rename(tree.parent / "gone")
    assert scan() == scan("--no-cache")


def test_a_full_disk_leaves_nothing_unfinished(
    tree: Path, users: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan()
    before = content(users)

    def full(*args: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "rename", full)
    (tree / "other.py").write_text(WASTE)
    assert scan() == scan("--no-cache")
    assert content(users).keys() == before.keys()


def _start(tree: Path, **more: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gpulint", "scan", "--output-format", "concise", str(tree)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, **more)


def test_scans_side_by_side_agree(tree: Path, users: Path) -> None:
    """All of them make the folder and the key at the same time."""
    processes = [_start(tree) for _ in range(6)]
    said = {process.communicate()[0] for process in processes}
    assert len(said) == 1
    assert b"GPU" in said.pop()
    assert {process.returncode for process in processes} == {1}
    assert only_entry(users)
    assert not list(users.glob("*.tmp"))


def test_a_killed_process_leaves_nothing_that_hinders(
    tree: Path, users: Path, scan: Scan, monkeypatch: pytest.MonkeyPatch, runs: list[int]
) -> None:
    """Killed between any two of its writes."""
    fresh = scan("--no-cache")
    real = os.rename

    class Killed(BaseException):
        pass

    for survived in range(4):
        shutil.rmtree(users, ignore_errors=True)
        left = [survived]

        def rename(*args: Any, left: list[int] = left, **more: Any) -> None:
            if not left[0]:
                raise Killed
            left[0] -= 1
            real(*args, **more)

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", rename)
            patch.setattr(Folder, "_remove", lambda folder, name: None)
            with pytest.raises(Killed):
                scan()
        assert list(users.glob("*.tmp"))
        assert scan() == fresh
        runs.clear()
        assert scan() == fresh
        assert not runs, "and the cache works again"


def test_only_a_scan_asks_where_the_users_folder_is(tree: Path) -> None:
    code = "import sys; from gpulint.cli import _main; _main(['--version']); print('platformdirs' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.splitlines()[-1] == "False"
