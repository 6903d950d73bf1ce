"""Loading of rules, fixers and commands: the first-party packages and third-party entry points use the same hooks."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pluggy

from gpulint import hooks
from gpulint.fix import Fixer
from gpulint.hooks import Failure
from gpulint.rule import Rule

if TYPE_CHECKING:
    import argparse

GROUP = "gpulint"
FIRST_PARTY = ("gpulint_rules", "gpulint_fixers", "gpulint_probe")
_BROKEN = (Exception, SystemExit)
"""What a plugin may raise at import; some scripts end the process when something is missing."""
_CODE = re.compile(r"[A-Z]{2,8}\d{3,4}$")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*$")


@dataclass
class Plugins:
    """What all loaded plugins bring; ``failures`` says which of them do not work, and why."""

    rules: list[Rule] = field(default_factory=list)
    fixers: dict[str, Fixer] = field(default_factory=dict)
    """By code of the rule."""
    failures: list[Failure] = field(default_factory=list)
    manager: pluggy.PluginManager = field(default_factory=lambda: pluggy.PluginManager("gpulint"), repr=False)


def collect(package: str, path: Iterable[str], attribute: str) -> Iterator[Any]:
    """The ``attribute`` of every ``gpuNNN_*`` module one level below ``package``; a ``Failure`` for one that is broken.

    A plugin with one file per rule implements its hook with this; ``path`` is the package's ``__path__``.
    """
    for folder in sorted(pkgutil.iter_modules(path, package + "."), key=lambda module: module.name):
        if not folder.ispkg:
            continue
        try:
            inner = importlib.import_module(folder.name)
        except Exception as error:
            yield Failure(folder.name, f"{type(error).__name__}: {error}")
            continue
        for module in sorted(pkgutil.iter_modules(inner.__path__, folder.name + "."), key=lambda module: module.name):
            if not re.match(r"[a-z]+\d+_", module.name.rpartition(".")[2]):
                continue
            try:
                yield getattr(importlib.import_module(module.name), attribute)
            except Exception as error:
                yield Failure(module.name, f"{type(error).__name__}: {error}")


def load(extra: Sequence[object] = ()) -> Plugins:
    """Import and register every plugin; ``extra`` are plugin modules or objects of the caller. Nothing is raised."""
    plugins = Plugins()
    plugins.manager.add_hookspecs(hooks)
    for name in FIRST_PARTY:
        try:
            _register(plugins, name, importlib.import_module(name))
        except ModuleNotFoundError as error:
            if error.name != name:
                plugins.failures.append(Failure(name, str(error)))
        except _BROKEN as error:
            plugins.failures.append(Failure(name, f"{type(error).__name__}: {error}"))
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            _register(plugins, entry.name, entry.load())
        except _BROKEN as error:
            plugins.failures.append(Failure(entry.name, f"{type(error).__name__}: {error}"))
    for plugin in extra:
        _register(plugins, getattr(plugin, "__name__", type(plugin).__name__), plugin)
    return plugins


def add_commands(plugins: Plugins, commands: argparse._SubParsersAction[Any]) -> None:
    """Let every plugin declare its sub-commands; one that raises joins ``plugins.failures``."""
    hook = "gpulint_commands"
    for name, plugin in plugins.manager.list_name_plugin():
        if not _implements(plugins, plugin, hook):
            continue
        try:
            getattr(plugin, hook)(subparsers=commands)
        except _BROKEN as error:
            plugins.failures.append(Failure(name, f"{hook} raised {type(error).__name__}: {error}"))


def _register(plugins: Plugins, name: str, plugin: object) -> None:
    """Register one plugin and take its rules and fixers; what is malformed is refused by name, the rest is kept."""
    plugins.manager.register(plugin, name)
    for rule in _offered(plugins, name, plugin, "gpulint_rules"):
        if reason := _why_not(rule, plugins.rules):
            plugins.failures.append(Failure(name, reason))
        else:
            plugins.rules.append(rule)
    for fixer in _offered(plugins, name, plugin, "gpulint_fixers"):
        if not isinstance(fixer, Fixer):
            plugins.failures.append(Failure(name, f"gpulint_fixers returned {fixer!r}, which is no Fixer"))
        elif fixer.code in plugins.fixers:
            plugins.failures.append(Failure(name, f"a second fixer for {fixer.code}"))
        else:
            plugins.fixers[fixer.code] = fixer


def _implements(plugins: Plugins, plugin: object, hook: str) -> bool:
    # pluggy 1.6 raises for what a plugin lacks.
    return hasattr(plugin, hook) and plugins.manager.parse_hookimpl_opts(plugin, hook) is not None


def _offered(plugins: Plugins, name: str, plugin: object, hook: str) -> Iterator[Any]:
    """What one plugin's implementation of ``hook`` returns, without the failures it reports."""
    if not _implements(plugins, plugin, hook):
        return
    implementation: Callable[[], Iterable[Any]] = getattr(plugin, hook)
    try:
        offered = list(implementation())
    except _BROKEN as error:
        plugins.failures.append(Failure(name, f"{hook} raised {type(error).__name__}: {error}"))
        return
    for item in offered:
        if isinstance(item, Failure):
            plugins.failures.append(item)
        else:
            yield item


def _why_not(rule: object, known: Sequence[Rule]) -> str:
    """Why ``rule`` cannot be registered; empty if it can."""
    if not isinstance(rule, Rule):
        return f"gpulint_rules returned {rule!r}, which is no Rule"
    if not _CODE.match(rule.code):
        return f"rule code {rule.code!r} is not of the form GPU123"
    if not _NAME.match(rule.name):
        return f"{rule.code}: rule name {rule.name!r} is not kebab-case"
    for other in known:
        if rule.code == other.code or rule.name == other.name:
            return f"{rule.code} {rule.name}: code or name already taken by {other.code} {other.name}"
    return ""
