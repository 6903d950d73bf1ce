"""Coverage-guided fuzzing of one reader with atheris; what it finds is scanned like any other input afterwards."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pkgutil
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fuzzing.corpus import Input, kind_name
from fuzzing.tokens import ANY, BY_KIND
from gpulint.launch.job_index import JobIndex

FILES = {
    "python": "train.py",
    "shell": "run.sh",
    "yaml": "job.yaml",
    "dockerfile": "Dockerfile",
    "notebook": "train.ipynb",
    "toml": "gpulint.toml",
}
"""The file that each reader gets its bytes in."""
_SECONDS = 10


def explore(reader: str, seconds: int, seed: int, corpus: Sequence[Input], folder: Path) -> int:
    """Let atheris search for inputs that reach new code; returns how many it tried. They end up in ``folder``."""
    for name in ("found", "failed", "seeds"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    kind = kind_name(FILES[reader].encode())
    examples = [data for item in corpus for name, data in item.files.items() if kind_name(name, data) == kind]
    for number, data in enumerate(examples):
        (folder / "seeds" / f"{number:05}").write_bytes(data)
    words = [word for word in (*BY_KIND[kind], *ANY) if len(word) < 60]
    (folder / "dictionary").write_text("".join(f'"{_escaped(word)}"\n' for word in words))
    child = os.fork()
    if child == 0:
        try:
            with (folder / "log").open("wb") as log:
                os.dup2(log.fileno(), sys.stderr.fileno())
            _search(reader, seconds, seed, folder)
        finally:
            os._exit(70)
    os.waitpid(child, 0)
    if not (folder / "count").is_file():
        raise SystemExit((folder / "log").read_text(errors="replace")[-4000:])
    return int((folder / "count").read_text())


def found(reader: str, folder: Path) -> list[Input]:
    """What a search kept: inputs that reach code which none before them did, and those that failed."""
    kind = kind_name(FILES[reader].encode())
    paths = sorted(path for name in ("failed", "found") for path in (folder / name).iterdir())
    return [
        Input({FILES[reader].encode(): path.read_bytes()}, kind, (), number, f"coverage of {reader}")
        for number, path in enumerate(paths)
    ]


def _escaped(word: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word)


def _search(reader: str, seconds: int, seed: int, folder: Path) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris

    # Only modules that are imported here are instrumented.
    for name in [name for name in sys.modules if name.partition(".")[0] == "gpulint"]:
        del sys.modules[name]
    with atheris.instrument_imports(include=["gpulint"], enable_loader_override=False):
        read = _reader(reader, folder)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _over)
    gc.freeze()
    count = 0

    def one(data: bytes) -> None:
        nonlocal count
        count += 1
        if count % 100 == 0:
            (folder / "count").write_text(str(count))
        signal.setitimer(signal.ITIMER_PROF, _SECONDS)
        try:
            read(data)
        except (Exception, _Over):
            number = len(os.listdir(folder / "failed"))  # noqa: PTH208 - just how many
            if number < 200:
                (folder / "failed" / f"{number:03}").write_bytes(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        "-max_len=4096",
        "-rss_limit_mb=4000",
        "-print_final_stats=0",
    ]
    options += [f"-timeout={30 * _SECONDS}", f"-artifact_prefix={folder}/failed/", f"-dict={folder}/dictionary"]
    atheris.Setup([sys.argv[0], str(folder / "found"), str(folder / "seeds"), *options], one)
    atheris.Fuzz()


class _Over(KeyboardInterrupt):
    """An input took more CPU time than it may."""


def _over(*_: object) -> None:
    raise _Over


def _reader(reader: str, folder: Path) -> Callable[[bytes], None]:
    """What reads one file as far as that goes without any rule."""
    from gpulint import documents
    from gpulint.config import Config, ConfigError, load
    from gpulint.launch import job_graph  # noqa: F401 - to be instrumented
    from gpulint.project import Project

    for syntax in pkgutil.walk_packages(documents.__path__, "gpulint.documents."):
        importlib.import_module(syntax.name)

    path = folder / "tree" / FILES[reader]
    path.parent.mkdir(exist_ok=True)

    def settings(data: bytes) -> None:
        path.write_bytes(data)
        with contextlib.suppress(ConfigError):
            load(path.parent)

    def document(data: bytes) -> None:
        project = Project(path.parent, [path], Config(base=path.parent))
        project.provide(path, data)
        read = project.document(path)
        if read is not None:
            _ = read.python, read.scripts, read.tasks, read.optional_parts
            project.module(read)
            _ = project.fact(JobIndex).jobs()

    return settings if reader == "toml" else document
