"""Values that a program reads from YAML and JSON files of the tree: ``yaml.safe_load``, ``json.load``, OmegaConf,
Hydra, Determined.

Only what can be followed counts: known paths and literal keys. The place of a value is its line in the file.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.finding import Place
from gpulint.launch.job_index import JobIndex
from gpulint.numerals import MAX_DIGITS
from gpulint.query import cyclic, query
from gpulint.semantic.points_to import Resolver
from gpulint.source import SourceText, Span
from gpulint.values import trial_config
from gpulint.values.arguments import Arguments
from gpulint.values.configured import mentioning
from gpulint.values.copied_mappings import copied_to
from gpulint.values.file_paths import file_names
from gpulint.values.settings_modules import written
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.launch.job import Launched
    from gpulint.project import Project
    from gpulint.values.constants import Value

MAX_SIZE = 200_000
"""Bytes of the largest configuration file that is read for values."""

MAX_DEFAULTS = 3
"""Depth to which configurations that Hydra puts together are followed."""
_IS_GLOBAL = b"@package _global_"
MAX_KEYS = 8
"""Most keys between a file and a value."""
MAX_SOURCES = 100
"""Most places of files that a mapping may be read from; of more, nothing is known."""
LOADS = frozenset(
    {
        "yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load", "json.load", "json.loads",
        "omegaconf.OmegaConf.load", "hyperpyyaml.load_hyperpyyaml", "ruamel.yaml.safe_load",
    }
)  # fmt: skip
_WRAPS = frozenset(
    {
        "omegaconf.OmegaConf.create", "types.SimpleNamespace", "argparse.Namespace", "box.Box", "easydict.EasyDict",
        "addict.Dict", "munch.munchify", "dict"
    }
)  # fmt: skip
_MODULES = frozenset({"mmengine.config.Config.fromfile", "mmengine.Config.fromfile", "mmcv.Config.fromfile"})
"""Functions that read a Python file of settings, or another one."""
_HYDRA = frozenset({"hydra.main", "hydra.main_decorator"})

Source = tuple[Path, tuple[str, ...], Path | None]
"""A file that a mapping is read from, the keys that lead to it, and the program on whose command line Hydra lets its
values be set."""
_NO_SOURCES: tuple[Source, ...] = ()


def _bounded(found: tuple[Source, ...], *_: object) -> tuple[Source, ...]:
    return found if len(found) <= MAX_SOURCES else ()


class ConfigFiles:
    """Configuration files that the programs of one project load."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    def lookup(self, ref: NodeRef) -> Iterator[Value]:
        """Yield what ``config["train"]["batch_size"]``, ``cfg.train.batch_size`` or ``cfg.get("lr", 1)`` reads."""
        key, base = step(ref.node)
        if base is not None:
            yield from self.item(ref.module, base, key)

    def item(self, module: ModuleIndex, base: ast.expr, key: str) -> Iterator[Value]:
        """Yield what a key of a mapping is in the files that the mapping may be read from."""
        from gpulint.values.constants import Value

        for path, prefix, program in self._sources(module, base):
            keys = (*prefix, key)
            starts = self._project.fact(JobIndex).launches_of(program) if program is not None else []
            given = [start.override(".".join(keys)) for start in starts]
            if any(text is None for found in given for text, _ in found):
                return
            yield from (Value(typed(text), place, "launcher") for found in given for text, place in found if text)
            if given and all(given):
                continue
            others = [start for start, set_there in zip(starts, given, strict=True) if not set_there]
            chosen = [self._of_group(path, keys, start) for start in others]
            if any(value is None for found in chosen for value in found):
                return
            yield from (value for found in chosen for value in found if value is not None)
            if chosen and all(chosen):
                continue
            yield from self.written_under(path, keys)

    def written_under(self, path: Path, keys: tuple[str, ...]) -> Iterator[Value]:
        """Yield what a file, or one that its ``defaults`` list adds to it, has under keys."""
        from gpulint.values.constants import Value

        for part, package in self._parts(path):
            if keys[: len(package)] != package:
                continue
            found = self.read(part).get(".".join(keys[len(package) :]))
            if found is not None:
                yield Value(found[0], Place(part, found[1], "set here"), "config")
                return

    def passed(self, ref: NodeRef) -> Iterator[tuple[Path, tuple[str, ...], list[list[tuple[str | None, Place]]]]]:
        """Yield Hydra's files of a program, the keys in them, and what each command sets these to."""
        key, base = step(ref.node)
        for path, prefix, program in self._sources(ref.module, base) if base is not None else ():
            if program is not None:
                keys = (*prefix, key)
                starts = self._project.fact(JobIndex).launches_of(program)
                yield path, keys, [start.override(".".join(keys)) for start in starts]

    def _of_group(self, path: Path, keys: tuple[str, ...], start: Launched) -> list[Value | None]:
        """The value of a key in the file that a command chooses for its group (``python train.py data=large``); None if
        that is unknown or the file of another group may set it (``experiment=second``), [] if neither is chosen."""
        from gpulint.values.constants import Value

        dotted = ".".join(keys)
        for word in start.start.launch.args:
            group, equals, option = word.text.partition("=")
            part = path.parent / group / f"{option}.yaml"
            if not equals or not group or not self._project.is_file(part):
                continue
            values = self.read(part)
            above = group.replace("/", ".") + "."
            if dotted.startswith(above):
                found = values.get(dotted.removeprefix(above))
                return [Value(found[0], Place(part, found[1], "set here"), "config") if found is not None else None]
            if dotted in values or any("override " in key and keys[0] in key for key in values):
                return [None]
        return []

    def sections(self, ref: NodeRef) -> Iterator[frozenset[str]]:
        """The keys right below ``cfg.loader`` in each of the files that it may be read from; none if it isn't there."""
        key, base = step(ref.node)
        for path, prefix, _ in self._sources(ref.module, base) if base is not None else ():
            keys = (*prefix, key)
            names: set[str] = set()
            for part, package in self._parts(path):
                if keys[: len(package)] == package:
                    head = "".join(f"{name}." for name in keys[len(package) :])
                    found = (name.removeprefix(head) for name in self.read(part) if name.startswith(head))
                    names.update(name.partition(".")[0] for name in found)
            yield frozenset(names)

    def always_has(self, ref: NodeRef) -> bool:
        """Return whether each of the files that ``cfg["lr"]`` may be read from has the key; true if there are none."""
        key, base = step(ref.node)
        return all(
            any(
                keys[: len(package)] == package and self._has(part, keys[len(package) :])
                for part, package in self._parts(path)
            )
            for path, prefix, _ in (self._sources(ref.module, base) if base is not None else ())
            for keys in [(*prefix, key)]
        )

    def lacks(self, ref: NodeRef) -> bool:
        """Return whether the files that ``cfg["lr"]`` may be read from lack the key: those that are known, or all of
        the tree for what fills an object."""
        key, base = step(ref.node)
        if base is None:
            return False
        files = self._sources(ref.module, base)
        if not files:
            return self._fills(ref, base) and not mentioning(self._project, key)
        return not any(
            not self.read(part) or (keys[: len(package)] == package and self._has(part, keys[len(package) :]))
            for path, prefix, _ in files
            for keys in [(*prefix, key)]
            for part, package in self._parts(path)
        )

    def _fills(self, ref: NodeRef, base: ast.expr) -> bool:
        """``data["lr"]`` where the program has ``Config(**data)``, or ``config.train.lr`` of such an object."""
        if ref.node in ref.module.unpacked_items:
            return True
        origins = self._project.fact(Resolver).points_to(ref.module, base)
        return any(origin.node in origin.module.unpacked_items for origin in origins)

    def _has(self, path: Path, keys: tuple[str, ...]) -> bool:
        dotted = ".".join(keys)
        return any(name == dotted or name.startswith(f"{dotted}.") for name in self.read(path))

    def _parts(self, path: Path, depth: int = 0) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """A file and those that its Hydra ``defaults`` list puts together with it, with the keys that they go under.

        https://hydra.cc/docs/advanced/defaults_list/
        """
        values = self.read(path)
        yield path, ()
        for key, (option, _) in values.items() if depth < MAX_DEFAULTS else ():
            if not key.startswith("defaults.") or not isinstance(option, str) or option == "_self_":
                continue
            group = key.partition(".")[2].partition(".")[2].removeprefix("optional ")
            folder, _, package = group.lstrip("/").partition("@")
            part = path.parent / folder / f"{option.removesuffix('.yaml')}.yaml"
            if group.startswith("override ") or not self._project.is_file(part):
                continue
            if _IS_GLOBAL in self._project.data(part)[:200]:
                package = "_global_"
            home = () if package == "_global_" else tuple((package.replace(".", "/") or folder).split("/"))
            home = home if home != ("",) else ()
            for inner, below in self._parts(part, depth + 1):
                yield inner, (*home, *below)

    @cyclic(_NO_SOURCES, _bounded)
    def _sources(self, module: ModuleIndex, base: ast.expr) -> tuple[Source, ...]:
        """Files of the tree that the mapping ``base`` may have been loaded from."""
        found: dict[Source, None] = {}
        for origin in self._project.fact(Resolver).points_to(module, base):
            node = origin.node
            key, inner = step(node)
            if trial_config.holds_hyperparameters(origin):
                files = trial_config.experiments(self._project, origin.module)
                found |= dict.fromkeys((path, (trial_config.KEY,), None) for path in files)
            elif inner is not None:
                outer = self._sources(origin.module, inner)
                found |= dict.fromkeys(
                    (path, (*prefix, key), program) for path, prefix, program in outer if len(prefix) < MAX_KEYS
                )
            elif isinstance(node, ast.Call):
                names = self._project.fact(Resolver).call_names(origin.module, node)
                if names & (LOADS | _MODULES) and node.args:
                    found |= dict.fromkeys((path, (), None) for path in self._opened(origin, node.args[0]))
                elif names & _WRAPS:
                    for whole in node.args[:1] or copied_to(origin.module, node):
                        found |= dict.fromkeys(self._sources(origin.module, whole))
            elif isinstance(node, ast.arg):
                found |= dict.fromkeys((path, (), origin.module.path) for path in self._hydra(origin, node))
        return tuple(found)

    def _opened(self, ref: NodeRef, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> Iterator[Path]:
        """Files behind ``open(path)``, an open handle, ``Path(path).read_text()`` or a path itself."""
        for origin in self._project.fact(Resolver).points_to(ref.module, node):
            inner = origin.node
            if inner in seen:
                continue  # `file = file.open()`
            if (
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Attribute)
                and inner.func.attr in ("open", "read", "read_text")
            ):
                yield from self._opened(origin, inner.func.value, seen | {inner})
            elif isinstance(inner, ast.Call) and last_name(inner.func) in ("open", "FileIO") and inner.args:
                yield from self._opened(origin, inner.args[0], seen | {inner})
            elif isinstance(inner, ast.expr):
                for name in file_names(self._project, origin):
                    yield from self.existing(origin.module.path.parent, name)

    def _hydra(self, ref: NodeRef, node: ast.arg) -> Iterator[Path]:
        """The primary configuration of a ``@hydra.main(config_path=..., config_name=...)`` function."""
        parents = ref.module.syntax.parents
        function = parents.get(parents.get(node, node))
        for decorator in function.decorator_list if isinstance(function, FUNCTIONS) else ():
            if (
                isinstance(decorator, ast.Call)
                and self._project.fact(Resolver).call_names(ref.module, decorator) & _HYDRA
            ):
                folder = self._constant(ref, decorator, "config_path", 0) or "."
                name = self._constant(ref, decorator, "config_name", 1)
                if name is not None:
                    suffix = "" if name.endswith((".yaml", ".yml")) else ".yaml"
                    yield from self.existing(ref.module.path.parent, f"{folder}/{name}{suffix}")

    def _constant(self, ref: NodeRef, call: ast.Call, name: str, position: int) -> str | None:
        known = self._project.fact(Arguments).value(ref.module, call, name, position)
        values = known.constants
        return values[0] if known.complete and len(values) == 1 and isinstance(values[0], str) else None

    def existing(self, folder: Path, name: str) -> Iterator[Path]:
        """A path beside the program or below a folder above it, within the tree."""
        if not name.endswith((".yaml", ".yml", ".json", ".py")) or name.startswith(("/", "~")) or "://" in name:
            return
        root = self._project.root
        while folder == root or folder.is_relative_to(root):
            path = Path(os.path.normpath(folder / name))
            if path.is_relative_to(root) and self._project.is_file(path):
                yield path
                return
            folder = folder.parent

    @query
    def read(self, path: Path) -> dict[str, tuple[object, Span]]:
        """Dotted key -> (value, place) of a YAML or JSON file; empty if it is too large or broken."""
        from gpulint.documents.base import Unreadable, decode

        if path.suffix == ".py":
            module = self._project.module_at(path)
            return written(module) if module is not None else {}
        data = self._project.data(path)
        if len(data) <= MAX_SIZE:
            with suppress(Unreadable):
                return self.values(SourceText(decode(data)[0]))
        return {}

    @staticmethod
    def values(source: SourceText) -> dict[str, tuple[object, Span]]:
        """The same of a text."""
        from gpulint.documents.yamltree import YamlError
        from gpulint.documents.yamlvalues import flatten

        try:
            return dict(flatten(source))
        except (YamlError, RecursionError):
            return {}


def typed(text: str) -> object:
    """A word of a command line as Hydra reads it."""
    if text.lstrip("-").isdecimal() and len(text) <= MAX_DIGITS:
        return int(text)
    try:
        return float(text)
    except ValueError:
        return {"true": True, "false": False, "null": None}.get(text.lower(), text)


def step(node: ast.AST) -> tuple[str, ast.expr | None]:
    """(``"lr"``, ``cfg["train"]``) of ``cfg["train"].lr``; None if the last key is no literal."""
    match node:
        case ast.Attribute(value=base, attr=key):
            return key, base
        case ast.Subscript(value=base, slice=ast.Constant(value=str(key))):
            return key, base
        case ast.Call(func=ast.Attribute(value=base, attr="get" | "pop"), args=[ast.Constant(value=str(key)), *_]):
            return key, base
        case ast.Call(func=ast.Attribute(attr="get_hparam") as base, args=[ast.Constant(value=str(key))]):
            return key, base
    return "", None


def key_of(node: ast.AST) -> str:
    """Return the last name in what an expression reads: ``lr`` of ``cfg["train"].get("lr", 1)``, ``args.lr`` and
    ``lr``; empty if there is none."""
    return step(node)[0] or (last_name(node) if isinstance(node, ast.expr) else "")
