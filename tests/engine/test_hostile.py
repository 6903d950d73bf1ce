"""Input that is made to break a scan: it costs its own file, with a message, and its neighbours nothing.

``FILES`` holds small files, which are all put beside a good project and scanned together, once. To add one, give its
folder a name and list its files; ``PROBLEMS`` says what is reported of it, if anything is.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main
from gpulint.config import Config
from gpulint.discover import discover
from gpulint.launch.job_graph import JobLinker
from gpulint.patterns import compiled
from gpulint.placement.batch_flow import BatchFlow
from tests import confined

GOOD = Path(__file__).parents[2] / "examples/half-the-gpus"
JOB = b"#!/bin/bash\n#SBATCH --gres=gpu:1\n"
LOOP = b"import torch\nfor x in torch.utils.data.DataLoader(d): x.cuda()\n"
NINES = b"9" * 5000


def _named(names: Iterable[str]) -> dict[str, Mapping[str | bytes, bytes]]:
    """A Python file and a script that declare the codec, for each of some names."""
    return {
        f"codec {name[:20]}": {
            "a.py": b"# coding: %b\n%bs = '\\ud800 \xe9'\n" % (name.encode(), LOOP),
            "a.sh": b"# coding: %b\n%bpython a.py\n" % (name.encode(), JOB),
        }
        for name in names
    }


def _doubling(first: bytes, step: bytes) -> bytes:
    """A program whose batch size is what 45 steps make of a constant."""
    lines = [b"a0 = " + first, *(step.replace(b"NEW", b"a%d" % (n + 1)).replace(b"OLD", b"a%d" % n) for n in range(45))]
    loop = b"for x in torch.utils.data.DataLoader(d, batch_size=a45, num_workers=int(a45)): x.cuda()\n"
    return b"import torch\n" + b"\n".join(lines) + b"\n" + loop


FILES: dict[str, Mapping[str | bytes, bytes]] = {
    **_named(["undefined", "punycode", "idna", "hex", "rot13", "base64", "zip", "bz2", "mbcs", "oem", "aliases", ".."]),
    **_named(["unicode_escape", "raw_unicode_escape", "utf-7", "utf-16", "utf-32", "charmap", "a" * 5000]),
    "long names": {
        "a.sh": JOB
        + b"".join(
            command % (b"n" * 300)
            for command in (
                b"python %b\n", b"python -m %b\n", b"bash %b.sh\n", b"source %b\n", b"cd %b\n", b"sbatch %b\n",
                b"accelerate launch --config_file %b.yaml t.py\n", b"deepspeed t.py --deepspeed_config %b.json\n",
            )
        )
    },
    "impossible names": {"a.sh": JOB + b"python $'a\\0b'\npython $'\\ud800'\npython $'\\xff'\n"},
    "names that are no text": {
        b"a\xff.py": LOOP,
        b"b\xff.sh": JOB + b"python $'a\\xff.py'\n",
        b"p\xff/__init__.py": LOOP,
        b"uncalled\xff.py": b"import torch\ndef f():\n    model.eval()\n    for x in loader: model(x).item\n",
    },
    "nested JSON in an image": {"Dockerfile": b"FROM x\nCMD " + b"[" * 1500, "Dockerfile.b": b"FROM x\nCMD " + b'{"a":' * 3000},
    "nested notebook": {"a.ipynb": b"[" * 100_000},
    "surrogates in a notebook": {
        "a.ipynb": b'{"cells": [{"cell_type": "code", "source": "!python \\ud800.py\\ns = \'\\udfff\'"}], "nbformat": 4}'
    },
    "long numbers": {
        "Dockerfile": b"FROM x\nCMD [" + NINES + b"]\n",
        "a.ipynb": b'{"cells": [{"cell_type": "code", "source": "import torch"}], "metadata": {"a": %b}}' % NINES,
        "a.py": b"import torch\nl = torch.utils.data.DataLoader(d, batch_size=0x%b, num_workers=0x%b)\n" % ((b"f" * 9999,) * 2),
        "b.py": b"import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--workers', type=int)\n"
        b"for x in torch.utils.data.DataLoader(d, num_workers=p.parse_args().workers): x.cuda()\n",
        "a.yaml": b"kind: Job\ncontainers:\n- image: nvidia\n  command: [python, t.py]\n  resources:\n    limits:\n"
        b"      nvidia.com/gpu: %b\n      cpu: %b\n" % (NINES, NINES),
        "a.sh": b"#!/bin/bash\n#SBATCH --gres=gpu:9999 -c 9999 -N 9999\ntorchrun --nproc_per_node 9999 b.py --workers 9999\n"
        b"mpirun -np 9999 -H a:9999 python b.py --batch-size 9999\nA=$((9999*9999))\npython b.py --workers $A\n"
        b"sleep 9999\n".replace(b"9999", NINES),
        "b.sh": b"#BSUB -gpu num=9999\n#BSUB -R ngpus=9999\npython b.py\n".replace(b"9999", NINES),
        "c.sh": b"#$ -l gpu=9999\npython b.py\n".replace(b"9999", NINES),
    },
    "numbers that double": {"a.py": _doubling(b"99999999", b"NEW = OLD * OLD")},
    "texts that double": {"a.py": _doubling(b"'99999999'", b"NEW = OLD + OLD"), "b.py": _doubling(b"'1'", b"NEW = f'{OLD}{OLD}'")},
    "tuples that double": {"a.py": _doubling(b"(1, 1)", b"NEW = (OLD, OLD)")},
    "merged keys, 3,000 deep": {
        "a.yaml": b"kind: Job\nb0: &b0 {image: nvidia}\n"
        + b"".join(b"b%d: &b%d\n  <<: *b%d\n" % (n + 1, n + 1, n) for n in range(3000))
        + b"containers:\n- <<: *b3000\n"
    },
    "merged with itself": {"a.yaml": b"kind: Job\ncontainers: &a\n- &b\n  image: nvidia\n  <<: *b\n  x: *a\n"},
    "texts that are long to search": {
        "a.py": b"import torch\nfrom PIL import Image\nclass D(torch.utils.data.Dataset):\n"
        b"    def __getitem__(self, i): return Image.open(str(i))\n"
        b"# %b\nl = torch.utils.data.DataLoader(D(), batch_size=8, num_workers=0)  # %b\n"
        b"for x in l:\n    model(x.cuda()).sum().backward()\n    optimizer.step()\n" % (b"fix " * 50_000, b"we " * 50_000),
        "environment.yml": b"\n" * 200_000 + b"name: pywin32",
        "run.bat": b"python " * 50_000,
    },
    "sums of 5,000 terms": {"a.py": LOOP + b"x = " + b"+".join([b"a"] * 5000) + b"\n"},
    "a redirection of nothing": {"a.sh": JOB + b"a) |x|)=1.#"},
    "nested shell": {"a.sh": JOB + b"$(" * 3000 + b"python a.py" + b")" * 3000, "b.sh": JOB + b"if a; then\n" * 2000},
    "two byte order marks": {"a.py": b"\xef\xbb\xbf" * 2 + LOOP, "a.sh": b"\xef\xbb\xbf" * 2 + JOB + b"python a.py\n"},
    "a mark inside": {"a.py": b"x = 1\n\xef\xbb\xbf" + LOOP},
    "broken UTF-16": {"a.py": b"\xff\xfe\x00\xd8"},
    "configurations": {
        "a.py": b"import json, torch, yaml\nc = json.load(open('c.json'))\nd = yaml.safe_load(open('%b.yaml'))\n"
        b"e = yaml.safe_load(open('a\\0b.yaml'))\nf = yaml.safe_load(open('\\ud800.yaml'))\n"
        b"for x in torch.utils.data.DataLoader(c['b'], d['b'], num_workers=e['w'], pin_memory=f['p']): x.cuda()\n"
        % (b"n" * 300),
        "c.json": b"[" * 100_000,
        "h.py": b"import hydra, torch\n@hydra.main(config_path='.', config_name='c')\ndef main(cfg):\n"
        b"    for x in torch.utils.data.DataLoader(d, batch_size=cfg.a.b): x.cuda()\n",
        "c.yaml": b'defaults:\n- a: %b\n- a: "x\\0y"\n- a: ../../../../../../etc/passwd\n' % (b"n" * 300),
    },
    "modules that import themselves": {"a.py": b"from a import *\nfrom b import *\n" + LOOP, "b.py": b"from a import *\n"},
    "scripts that call themselves": {"a.sh": JOB + b"source a.sh\nbash b.sh\n", "b.sh": b"bash a.sh\nsource b.sh\n"},
    "functions that call the next, 1,000 deep": {
        "a.py": b"import torch\n"
        + b"".join(b"def f%d(x): return f%d(x)\n" % (n, n + 1) for n in range(1000))
        + b"for x in torch.utils.data.DataLoader(f0(1)): x.cuda()\n"
    },
}  # fmt: skip

PROBLEMS = {
    "codec undefined/a.py": "encoding 'undefined' declared, which is not one for files",
    "codec punycode/a.py": "encoding 'punycode' declared, which is not one for files",
    "codec hex/a.py": "not valid hex text: 'hex' is not a text encoding",
    "codec mbcs/a.py": "unknown encoding 'mbcs' declared",
    "codec unicode_escape/a.py": "not valid unicode_escape text: it holds a lone surrogate",
    "nested notebook/a.ipynb": "broken notebook: nested too deeply",
    "surrogates in a notebook/a.ipynb": "surrogates not allowed",
    "sums of 5,000 terms/a.py": "nested too deeply to be analysed; skipped",
    "two byte order marks/a.py": "syntax error: invalid non-printable character U+FEFF",
    "a mark inside/a.py": "syntax error: invalid non-printable character U+FEFF",
    "broken UTF-16/a.py": "not valid utf-16 text: unexpected end of data",
}

Outcome = tuple[int, list[Any], list[str]]
Scan = Callable[..., Outcome]


def _findings(folder: str, listed: list[Any], *, fixes: bool = True) -> list[str]:
    """Findings below a folder, as text."""
    return sorted(
        json.dumps({name: value for name, value in item.items() if fixes or name != "fix"}).replace(f"{folder}/", "")
        for item in listed
        if item["path"].startswith(f"{folder}/")
    )


def _write(folder: Path, files: Mapping[str | bytes, bytes]) -> None:
    for name, data in files.items():
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _scan(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    capsys.readouterr()
    code = main(["scan", "--no-cache", "--impact", "low", "--output-format", "json", "--show-notes", *arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, json.loads(out) if out else [], err.splitlines()


@pytest.fixture
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Scan:
    """Scan the good project with what the test has put beside it; asserts that its findings are all there."""
    shutil.copytree(GOOD, tmp_path / "good")
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    alone = _scan(capsys, "good")[1]
    expected = _findings("good", alone)
    assert len(expected) > 5

    def call(*arguments: str) -> Outcome:
        outcome = _scan(capsys, *(arguments or ["."]))
        if outcome[0] != 2:
            # With a device named, the project is the whole file system: what a fix adds to it may differ.
            fixes = "/dev/zero" not in arguments
            assert _findings("good", outcome[1], fixes=fixes) == _findings("good", alone, fixes=fixes)
        return outcome

    return call


def test_every_hostile_file_is_contained(scan: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linked: list[JobLinker] = []
    jobs = JobLinker.jobs
    monkeypatch.setattr(JobLinker, "jobs", lambda linker: linked.append(linker) or jobs(linker))
    for name, files in FILES.items():
        _write(tmp_path / name, files)
    code, _, errors = scan()
    assert code == 1
    assert [line for line in errors if "internal error" in line] == []
    assert len(linked) == 1
    for place, message in PROBLEMS.items():
        lines = [line for line in errors if line.startswith(f"{place}:")]
        assert len(lines) == 1, (place, lines)
        assert message in lines[0]
    problems = {line.split(":")[0] for line in errors if ": error: " in line}
    assert {place for place in problems if not place.startswith("codec ")} <= PROBLEMS.keys()


def test_a_defect_in_one_launcher_costs_that_launcher(
    scan: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "bad", {"a.sh": JOB + b"python a.py\n", "b.sh": JOB + b"bash a.sh\n", "a.py": LOOP})
    job, tried = JobLinker.job, list[Path]()

    def broken(linker: JobLinker, document: Any, task: Any) -> Any:
        if document.path.parent.name == "bad":
            tried.append(document.path)
            raise KeyError("a defect")
        return job(linker, document, task)

    monkeypatch.setattr(JobLinker, "job", broken)
    code, _, errors = scan()
    assert code == 3
    assert len(tried) == 2
    for name in ("a.sh", "b.sh"):
        found = [line for line in errors if line.startswith(f"bad/{name}: internal error in job linking: KeyError")]
        assert len(found) == 1


def test_a_script_that_cannot_be_followed_leaves_its_callers_their_jobs(
    scan: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers = {f"{number}.sh": JOB + b"#SBATCH --gres=gpu:8\nbash a.sh\npython t.py\n" for number in range(20)}
    _write(tmp_path / "bad", {"a.sh": b"python t.py\n", "t.py": LOOP, **callers})
    script, tried = JobLinker.script, list[Path]()

    def broken(linker: JobLinker, walk: Any, document: Any, *rest: Any) -> None:
        if document.path.name == "a.sh":
            tried.append(document.path)
            raise RecursionError
        script(linker, walk, document, *rest)

    monkeypatch.setattr(JobLinker, "script", broken)
    code, _, errors = scan()
    assert code == 1
    assert errors == ["bad/a.sh: error: nested too deeply to be checked completely"]
    assert len(tried) == 2  # as a launcher of its own, and once for all that call it


def test_a_defect_in_a_fact_about_one_module_costs_that_module(
    scan: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "bad", {"a.py": LOOP, "b.py": LOOP})
    known = BatchFlow._known_read

    def broken(draws: BatchFlow, module: Any, *rest: Any) -> Any:
        if module.path.parent.name == "bad":
            raise KeyError("a defect")
        return known(draws, module, *rest)

    monkeypatch.setattr(BatchFlow, "_known_read", broken)
    code, _, errors = scan()
    assert code == 3
    for name in ("a.py", "b.py"):
        assert len([line for line in errors if line.startswith(f"bad/{name}: internal error in ")]) == 1


# -- What is no regular file, or not of the project --------------------------------------------------------------------


@pytest.mark.parametrize("name", [".gitignore", "good/.gitignore", "x.py", "Dockerfile", "ds_config.json"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: Path(path).symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_what_is_no_file_is_not_read(scan: Scan, name: str, make: Callable[[str], None]) -> None:
    make(name)
    code, _, errors = scan()
    assert code == 1
    assert all(line.startswith(f"{name}: note: not ") for line in errors)
    assert len(errors) == (0 if name == "ds_config.json" and Path(name).is_symlink() else 1)


@pytest.mark.parametrize("name", ["gpulint.toml", "pyproject.toml", "gpulint-baseline.json"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "cannot be read: a named pipe, not a regular file"),
        (os.mkdir, "cannot be read: a folder, not a regular file"),
        (lambda path: Path(path).symlink_to("/dev/zero"), "a link out of the project"),
    ],
    ids=["pipe", "folder", "device"],
)
def test_settings_that_are_no_file_end_the_run(
    scan: Scan, tmp_path: Path, name: str, make: Callable[[str], None], message: str
) -> None:
    make(name)
    code, _, errors = scan()
    assert code == 2
    assert len(errors) == 1
    assert errors[0].startswith(f"gpulint: error: {tmp_path / name}: {message}")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["pipe.py", "good"], 1, "pipe.py: error: cannot be read: a named pipe, not a regular file"),
        (["/dev/zero", "good"], 1, "zero: error: cannot be read: a device, not a regular file"),
        (["--config", "pipe.py", "."], 2, "pipe.py: cannot be read: a named pipe"),
        (["--baseline", "pipe.py", "."], 2, "pipe.py: cannot be read: a named pipe"),
        (["n" * 300, "good"], 2, "no such file or folder"),
    ],
)
def test_what_is_named_is_refused_with_a_message(scan: Scan, arguments: list[str], code: int, message: str) -> None:
    os.mkfifo("pipe.py")
    found, _, errors = scan(*arguments)
    assert found == code
    assert len(errors) == 1
    assert message in errors[0]


def test_nothing_behind_links_out_of_the_project_is_shown(scan: Scan, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name} outside"
    _write(outside, {"s.py": LOOP + b"SECRET = 7\n", "c.yaml": b"num_workers: 0 # SECRET\n"})
    Path("link.py").symlink_to(outside / "s.py")
    Path("folder").symlink_to(outside)
    Path("c.yaml").symlink_to(outside / "c.yaml")
    Path("again.py").symlink_to("user.py")
    Path("loop").symlink_to(".")
    Path("user.py").write_text(
        "import torch, yaml\nfrom link import *\nfrom folder.s import SECRET\n"
        + "".join(
            f"for x in torch.utils.data.DataLoader(d, num_workers=yaml.safe_load(open({path!r}))['num_workers']): x.cuda()\n"
            for path in ("c.yaml", "folder/c.yaml", f"../{outside.name}/c.yaml", str(outside / "c.yaml"))
        )
    )
    code, findings, errors = scan()
    assert code == 1
    assert {item["path"] for item in findings if not item["path"].startswith("good/")} == {"user.py"}
    shown = json.dumps(findings)
    assert "SECRET" not in shown
    assert outside.name not in shown
    links = ("c.yaml", "folder", "link.py")
    assert errors == [f"{name}: note: not followed: a link out of the project" for name in links]


def test_a_link_that_is_named_is_followed(scan: Scan, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name} named"
    _write(outside, {"s.py": LOOP, "deep/t.py": LOOP})
    Path("link.py").symlink_to(outside / "s.py")
    Path("folder").symlink_to(outside)
    for name, paths in (("link.py", {"link.py"}), ("folder", {"folder/s.py", "folder/deep/t.py"})):
        _, findings, errors = scan(name, "good")
        assert {item["path"] for item in findings if not item["path"].startswith("good/")} == paths
        assert errors == []


def test_a_file_that_vanishes_while_it_is_scanned(scan: Scan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, {"a.py": LOOP})

    def found(*arguments: Any, **options: Any) -> Any:
        result = discover(*arguments, **options)
        (tmp_path / "a.py").unlink(missing_ok=True)
        return result

    monkeypatch.setattr("gpulint.discover.discover", found)
    code, _, errors = scan()
    assert code == 1
    assert errors == ["a.py: error: cannot be read: No such file or directory"]


# -- Patterns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "**/a/" * 30 + "b", "**/*a*a*a/" * 20 + "b", "[ab]*" * 500])
@pytest.mark.parametrize("file", ["gpulint.toml", ".gitignore"])
def test_no_pattern_takes_long(tmp_path: Path, pattern: str, file: str) -> None:
    tree = tmp_path / "tree"
    folder = tree.joinpath(*["a"] * 40)
    _write(folder, {"a" * 200: b"", "x.py": LOOP})
    (tree / file).write_text(pattern if file == ".gitignore" else f"extend-exclude = ['{pattern}']\n")
    done = confined.run(["scan", "--impact=low", "--no-cache", "--quiet", "--output-format", "json"], tree, cpu_s=20)
    assert done.code == 1, done.err
    assert "x.py" in done.out


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a*b*c", ["abc", "aXbbXc", "acbc"], ["ab", "acb", "a/bc"]),
        ("*a*", ["a", "xay"], ["x", "xy"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c"], ["a/c", "x/a/b/c", "a/bb/c"]),
        ("**/x*y/z", ["xy/z", "a/b/xQy/z"], ["xy/q/z"]),
        ("?*[!a]x", ["bbx", "abx"], ["bax", "bx"]),
        (r"\*a*b", ["*a_b"], ["xa_b"]),
    ],
)
def test_patterns_mean_what_git_means(pattern: str, yes: list[str], no: list[str]) -> None:
    spec = compiled((pattern,))
    assert [path for path in yes if not spec.match_file(path)] == []
    assert [path for path in no if spec.match_file(path)] == []


@pytest.mark.parametrize("setting", ["extend-exclude = ['a', '[z-a]']", "per-file-ignores = {'[z-a]' = ['ALL']}"])
def test_a_setting_that_is_no_pattern_is_named(scan: Scan, tmp_path: Path, setting: str) -> None:
    (tmp_path / "gpulint.toml").write_text(setting)
    code, _, errors = scan()
    assert code == 2
    key = setting.split(" ")[0]
    assert errors == [f"gpulint: error: {tmp_path}/gpulint.toml:1: '{key}' has '[z-a]', which is no pattern"]


def test_patterns_of_a_gitignore_that_cannot_be_used_are_left_out(scan: Scan, tmp_path: Path) -> None:
    _write(tmp_path, {"a.py": LOOP, "b.py": LOOP, ".gitignore": b"[z-a]\na.py\n\\\n%b\n" % (b"x" * 5000)})
    code, findings, errors = scan()
    assert code == 1
    assert {item["path"] for item in findings if "/" not in item["path"]} == {"b.py"}
    assert errors == [".gitignore: note: 3 patterns not used: too many, too long or not valid"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus-per-node = " + "9" * 5000, "not valid TOML: a number has thousands of digits"),
        ("exclude = " + "[" * 5000, "not valid TOML: nested too deeply"),
        ("\udcff", "not valid TOML: "),
    ],
)
def test_settings_that_python_cannot_take(scan: Scan, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gpulint.toml").write_text(text, errors="surrogateescape")
    code, _, errors = scan()
    assert code == 2
    assert len(errors) == 1
    assert errors[0].startswith(f"gpulint: error: {tmp_path}/gpulint.toml: {message}")


def test_a_link_into_the_project_counts_once(tmp_path: Path) -> None:
    _write(tmp_path, {"a/x.py": LOOP})
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "y.py").symlink_to("a/x.py")
    (tmp_path / "a/up").symlink_to("..")
    found = discover([tmp_path], Config(base=tmp_path), tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in found.files] == ["a/x.py"]
