"""``--no-cache`` and ``--cache-dir`` of scan, and what of a run the cache may answer."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from gpulint.cli.inputs import Inputs, ScanInputs
from gpulint.escaping import say
from gpulint.settings import CACHE_VARIABLE

if TYPE_CHECKING:
    from gpulint.cache import Cache
    from gpulint.cache.location import Location
    from gpulint.plugins import Plugins
    from gpulint.report import Report


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Declare the options."""
    group.add_argument("--no-cache", action="store_true", help="disable the cache")
    group.add_argument(
        "--cache-dir", metavar="FOLDER", help=f"(default: {CACHE_VARIABLE}, the setting, or the user's cache folder)"
    )


class Kept:
    """The cache as one scan may use it."""

    def __init__(self, args: argparse.Namespace, seen: ScanInputs, fixes: bool) -> None:
        self._seen = seen
        self._location: Location | None = None
        if not _is_off(args, seen):
            from gpulint.cache import key_of
            from gpulint.cache.location import locate

            self._location = locate(args.cache_dir, seen.config, seen.paths)
            self._data = {path: _read(path) for path in seen.files}
            more = (seen.paths, fixes, args.report_unused_ignores, args.no_gate, _search_path())
            # Which files there are, and what they hold, is for each answer to say.
            self._answers_key = key_of(seen.root, seen.config, (), (), {}, "answers", *more[1:])
            self._key = key_of(seen.root, seen.config, seen.files, seen.found.files, self._data, *more)

    def get(self, args: argparse.Namespace) -> tuple[Inputs, Report] | None:
        """The report of the very same scan, if it is kept, with inputs that know the rules by their words alone."""
        with self._opened() as cache:
            kept = cache.get(self._key) if cache is not None else None
        if kept is None:
            return None
        from types import SimpleNamespace

        from gpulint.project import Project

        report, rules = kept
        seen = self._seen
        project = Project(seen.root, seen.files, seen.config)
        for path, data in self._data.items():
            project.remember(path, data)
        # Importing the plugins is what the cache saves.
        loaded = cast("Plugins", SimpleNamespace(rules=[*rules], fixers={}, failures=[]))
        return Inputs(seen.paths, project, seen.found, rules, args.report_unused_ignores, loaded, None), report

    def recall(self, given: Inputs) -> None:
        """Let the run use what earlier ones found, as far as that still holds."""
        if self._location is None:
            given.project.db.keeps_reads = False
            return
        from gpulint.cache.answers import recall, told

        given.project.db.tell = told
        with self._opened() as cache:
            held = cache.get_answers(self._answers_key) if cache is not None else None
        if held is None:
            return
        for path, data in self._data.items():
            given.project.remember(path, data)
        recall(given.project, held, given.rules)

    def put(self, report: Report, given: Inputs) -> None:
        """Keep the report, if it tells the whole truth: nothing failed, and this process saw all that was asked."""
        if report.errors or given.plugins.failures or not given.project.knows_all_asked:
            return
        with self._opened() as cache:
            # A file may have changed while it was scanned.
            if cache is None or any(given.project.data(path) != data for path, data in self._data.items()):
                return
            from gpulint.cache.answers import answers_of, is_worth_keeping

            code = code_folders(given.plugins)
            cache.put(self._key, report, given.rules, given.project, code)
            if is_worth_keeping(given.project):
                cache.put_answers(self._answers_key, lambda: answers_of(given.project), code)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Cache | None]:
        """The cache; None where there is none, or none that can be used."""
        with contextlib.ExitStack() as stack:
            cache = None
            if self._location is not None:
                from gpulint.cache import Cache
                from gpulint.cache.folder import Refused

                try:
                    cache = Cache(*stack.enter_context(self._location.open()))
                except Refused as refusal:
                    say(f"gpulint: warning: the cache is disabled: {refusal}")
                    self._location = None
                except OSError:
                    self._location = None
            yield cache


def _is_off(args: argparse.Namespace, seen: ScanInputs) -> bool:
    others = args.profile, args.add_ignores, args.diff, args.estimate, args.estimate_with, seen.stdin is not None
    return bool(args.no_cache or any(others))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb", buffering=0) as stream:
            return stream.read()
    except OSError:
        return b"\0unreadable"


def _search_path() -> list[str]:
    """Return where plugins may come from, without the folder that ``python -m`` starts in."""
    return sorted(set(sys.path) - {"", str(Path.cwd())})


def code_folders(loaded: Plugins) -> list[Path]:
    """Folders of all code that decides what is found: what is kept holds as long as they stay the same."""
    return sorted({_home(*part) for part in _parts(loaded)})


def _parts(loaded: Plugins) -> Iterable[tuple[str, str]]:
    """Name and file of each module whose code or data decides what is found."""
    checks = [rule.check for rule in loaded.rules] + [fixer.fix for fixer in loaded.fixers.values()]
    for function in (*checks, _home):
        code = getattr(function, "__code__", None)  # a function whose module is not imported yet has none
        yield function.__module__, code.co_filename if code is not None else ""
    for _, plugin in loaded.manager.list_name_plugin():
        module = plugin if isinstance(plugin, ModuleType) else sys.modules.get(type(plugin).__module__)
        if module is not None and module.__file__ is not None:
            yield module.__name__, module.__file__


def _home(module: str, file: str) -> Path:
    """The folder of a module's package, or its file."""
    top = sys.modules.get(module.partition(".")[0])
    path = Path(getattr(top, "__file__", None) or file)
    return path.parent if path.name == "__init__.py" else path


__all__: Sequence[str] = ["Kept", "add_arguments", "code_folders"]
