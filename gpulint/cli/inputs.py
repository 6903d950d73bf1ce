"""What ``gpulint scan`` and ``gpulint fix`` read alike: paths or standard input, settings, and the choice of rules."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import disk
from gpulint.config import Config, ConfigError, load
from gpulint.finding import Severity
from gpulint.impact import Level
from gpulint.records import dataclass
from gpulint.settings import level

if TYPE_CHECKING:
    from gpulint.discover import Discovery
    from gpulint.plugins import Plugins
    from gpulint.project import Project
    from gpulint.rule import Rule


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a run starts from."""

    paths: tuple[Path, ...]
    """What was named, as absolute paths."""
    project: Project
    found: Discovery
    rules: tuple[Rule, ...]
    unused_ignores: bool
    """Whether suppressions that hide nothing are to be reported."""
    plugins: Plugins
    stdin: bytes | None
    """Content of standard input, if that is meant; ``found.files`` then holds the name that it goes by."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare paths and the choice of rules, which come first in the help."""
    parser.usage = f"{parser.prog} [options] [PATH ...]"
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: .); - for standard input")
    choice = parser.add_argument_group(
        "rule selection (code, prefix, name, category, dimension or ALL; comma-separated)"
    )
    for option, text in (
        ("--select", "run these rules instead of the default selection"),
        ("--extend-select", "run these rules as well"),
        ("--ignore", "do not run these rules"),
    ):
        choice.add_argument(option, action="extend", default=[], metavar="RULES", type=_list, help=text)
    levels = [str(level) for level in Severity]
    choice.add_argument("--severity", choices=levels, help="report nothing below this severity (default: info)")


def add_impact(parser: argparse.ArgumentParser) -> None:
    """Declare which impact is shown."""
    parser.add_argument(
        "--impact",
        choices=[*map(str, Level), "all"],
        help="show findings of this impact and above (default: medium; low for the rules that --select names)",
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Declare where settings come from and how files are read, which come last in the help."""
    settings = parser.add_argument_group("settings")
    settings.add_argument("--config", type=Path, metavar="FILE", help="use this settings file")
    settings.add_argument("--isolated", action="store_true", help="use no settings file")
    settings.add_argument(
        "--force-exclude", action="store_true", help="skip excluded files even if they are named (for pre-commit)"
    )
    settings.add_argument(
        "--jobs",
        type=_jobs,
        metavar="N",
        help="number of processes (default: auto, by the size of the tree; 0: one per core)",
    )
    # The reference that the byte gate is held to.
    settings.add_argument("--no-gate", action="store_true", help=argparse.SUPPRESS)
    settings.add_argument(
        "--estimate",
        action="store_true",
        help="run the model factories in the settings, and report which batches fit (needs the extra 'estimate')",
    )
    settings.add_argument(
        "--estimate-with",
        action="append",
        default=[],
        metavar="ARGUMENTS",
        help="the same for this factory: 'train.py:build --gpu A100-40GB --input 3x224x224'",
    )
    settings.add_argument("--stdin-filename", metavar="PATH", help="read standard input as if it were this file")


def _list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _jobs(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, or auto, not '{text}'")
    if number := int(text):
        return number
    from gpulint.workers import cpus

    return cpus()


@dataclass(frozen=True, slots=True)
class ScanInputs:
    """What is known before plugins are loaded: settings, and the files to report on (``found``) and to read."""

    paths: tuple[Path, ...]
    stdin: bytes | None
    settings: Config
    config: Config
    found: Discovery
    root: Path
    files: tuple[Path, ...]


def discover_inputs(args: argparse.Namespace, paths: Sequence[Path], stdin: bytes | None) -> ScanInputs:
    """Settings and files.

    Raises:
        ConfigError: invalid settings.
    """
    settings, config = configuration(args, paths)
    found, root = _discover(paths, config, stdin, args.force_exclude)
    found.problems += config.problems
    return ScanInputs(
        tuple(paths), stdin, settings, config, found, root, tuple(_surroundings(paths, found.files, config, root))
    )


def read(args: argparse.Namespace, *, report_unused_ignores: bool = False, seen: ScanInputs | None = None) -> Inputs:
    """Find what the arguments mean, as far as ``seen`` does not say so already.

    Raises:
        ConfigError: paths that do not exist, selectors that name nothing, invalid settings.
    """
    return _load(args, seen or discover_inputs(args, *given_paths(args)), report_unused_ignores)


def gather(
    args: argparse.Namespace, paths: Sequence[Path], stdin: bytes | None, *, report_unused_ignores: bool = False
) -> Inputs:
    """The same for paths that are absolute already; with ``stdin`` there is one, which need not exist.

    Raises:
        ConfigError: selectors that name nothing, invalid settings.
    """
    return _load(args, discover_inputs(args, paths, stdin), report_unused_ignores)


def _load(args: argparse.Namespace, seen: ScanInputs, report_unused_ignores: bool) -> Inputs:
    from gpulint import plugins
    from gpulint.project import Project
    from gpulint.suppress import UNUSED_IGNORE

    loaded = plugins.load()
    check_choice(args, seen.settings, loaded)
    rules, unused_ignores = _rules(seen.config, loaded)
    config = seen.config
    if loaded.models:
        from gpulint.libraries.sources import merged

        config = dataclasses.replace(config, models=merged(config.models, loaded.models))
    project = Project(seen.root, seen.files, config)
    project.explicit_files = frozenset(seen.paths)
    project.use_byte_gate = not args.no_gate
    project.rule_names = frozenset(word for rule in (*loaded.rules, UNUSED_IGNORE) for word in (rule.code, *rule.names))
    if args.estimate or args.estimate_with:
        _estimate(args, project, loaded, seen.found)
    if seen.stdin is not None:
        project.provide(seen.paths[0], seen.stdin)
    return Inputs(seen.paths, project, seen.found, rules, report_unused_ignores or unused_ignores, loaded, seen.stdin)


def _estimate(args: argparse.Namespace, project: Project, loaded: Plugins, found: Discovery) -> None:
    """Run the model factories that the user names; one that fails is a problem, and the scan goes on without it."""
    from gpulint.estimates import EstimateFailed, Estimates, announce, factory_file
    from gpulint.finding import Problem

    asked = [(words, project.config.base, project.config.source) for words in project.config.estimate * args.estimate]
    if args.estimate and not asked:
        raise ConfigError("--estimate needs a model factory: [tool.gpulint.estimate] with target = 'train.py:build'")
    asked += [(tuple(shlex.split(text)), Path.cwd(), None) for text in args.estimate_with]
    known = []
    for (target, *options), base, source in asked:
        factory = factory_file(target, base)
        named = f"{factory}:{target.rpartition(':')[2]}" if factory is not None and ".py:" in target else target
        try:
            sizes = loaded.manager.hook.gpulint_batch_sizes(arguments=[named, *options])
        except EstimateFailed as error:
            found.problems.append(Problem(source or factory or project.root, f"no estimate for {target}: {error}"))
            continue
        sizes = dataclasses.replace(sizes, target=target)
        announce(sizes)
        if factory is not None:
            known.append((factory, sizes))
    project.estimates = Estimates(known)


def given_paths(args: argparse.Namespace) -> tuple[list[Path], bytes | None]:
    """Return what to read, as absolute paths, and the content of standard input if that is meant."""
    from gpulint.discover import absolute

    if args.stdin_filename is not None or "-" in args.paths:
        if args.stdin_filename is None:
            raise ConfigError("'-' needs --stdin-filename, which says what kind of file standard input is")
        if args.paths not in ([], ["-"]):
            raise ConfigError("standard input and other paths cannot be scanned together")
        return [absolute(Path(args.stdin_filename))], sys.stdin.buffer.read()
    paths = [absolute(Path(path)) for path in args.paths or ["."]]
    for given, path in zip(args.paths, paths, strict=False):
        if not disk.exists(path):
            raise ConfigError(f"{given}: no such file or folder")
    return paths, None


def configuration(args: argparse.Namespace, paths: Sequence[Path]) -> tuple[Config, Config]:
    """The settings of the file that applies to ``paths``, and the same with the command line laid over them.

    Raises:
        ConfigError: invalid settings.
    """
    folders = [path if disk.is_dir(path) else path.parent for path in paths]
    settings = load(Path(os.path.commonpath(folders)), explicit=args.config, isolated=args.isolated)
    return settings, _overlaid(args, settings)


def _overlaid(args: argparse.Namespace, config: Config) -> Config:
    """The settings with the command line laid over them.

    ``--select`` starts afresh: what the file selects, ignores or hides was meant for its own selection. Who names rules
    sees all that they find, unless ``--impact`` says otherwise.
    """
    if args.select:
        config = dataclasses.replace(config, select=tuple(args.select), ignore=(), extend_select=())
    impact = getattr(args, "impact", None) or ("all" if args.select else None)
    if impact:
        config = dataclasses.replace(config, impact=level(impact), per_rule_impact={}, per_file_impact={})
    return dataclasses.replace(
        config,
        ignore=(*config.ignore, *args.ignore),
        extend_select=(*config.extend_select, *args.extend_select),
        severity=Severity[args.severity.upper()] if args.severity else config.severity,
    )


def check_choice(args: argparse.Namespace, settings: Config, loaded: Plugins) -> None:
    """Refuse selectors, on the command line or in the settings file, that name nothing."""
    from gpulint.selection import check_selectors
    from gpulint.suppress import UNUSED_IGNORE

    known = [*loaded.rules, UNUSED_IGNORE]
    check_selectors([*args.select, *args.extend_select, *args.ignore], known, "command line")
    in_file = [*(settings.select or ()), *settings.extend_select, *settings.ignore]
    in_file += [word for words in settings.per_file_ignores.values() for word in words]
    in_file += settings.per_rule_impact
    check_selectors(in_file, known, str(settings.source))


def _rules(config: Config, loaded: Plugins) -> tuple[tuple[Rule, ...], bool]:
    """The rules to run, and whether unused suppressions are selected."""
    from gpulint.selection import select
    from gpulint.suppress import UNUSED_IGNORE

    rules = select([*loaded.rules, UNUSED_IGNORE], config.select, config.extend_select, config.ignore)
    return tuple(rule for rule in rules if rule is not UNUSED_IGNORE), UNUSED_IGNORE in rules


def _discover(
    paths: Sequence[Path], config: Config, stdin: bytes | None, force_exclude: bool
) -> tuple[Discovery, Path]:
    from gpulint.discover import Discovery, discover, project_root

    root = project_root(paths)
    if stdin is not None:
        return Discovery([*paths]), root
    return discover(paths, config, root, force_exclude=force_exclude), root


def _surroundings(paths: Sequence[Path], files: Sequence[Path], config: Config, root: Path) -> list[Path]:
    """Return what rules may read besides: for single files the project, to judge a program with its launcher."""
    from gpulint.discover import discover, is_project

    if any(disk.is_dir(path) for path in paths) or not is_project(root):
        return [*files]
    return sorted({*files, *discover([root], config, root).files})
