"""Settings in ``.env`` files: those of pydantic's ``BaseSettings``, and variables that ``load_dotenv`` sets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.source import SourceText
from gpulint.values.config_files import typed
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.values.constants import Value
    from gpulint.workspace.module_index import ModuleIndex, NodeRef

_SETTINGS = frozenset({"pydantic_settings.BaseSettings", "pydantic.BaseSettings", "pydantic.v1.BaseSettings"})
_LOADS = ("load_dotenv", "dotenv_values")
_LINE = regex.compile(r"""^[ \t]*(?:export[ \t]+)?(\w+)[ \t]*=[ \t]*("[^"\n]*"|'[^'\n]*'|[^#\n]*?)[ \t]*(?:#.*)?$""", 8)
"""``NAME=value  # comment``; the flag is MULTILINE."""
_SECRET = regex.compile(r"(?:^|_)(?:\w*key|token|secret|passw\w*|pwd|credentials?|auth|cookie|dsn)(?:_|$)", 2)
"""Names of variables whose values are nobody's business; the flag is IGNORECASE."""
_LOGIN = regex.compile(r"://[^/\s]*@")
MAX_SIZE = 100_000
"""Bytes of the largest such file that is read."""


class EnvironmentFiles:
    """The ``.env`` files of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    def variable(self, name: str) -> list[Value]:
        """Return what the files that programs of the tree load with ``load_dotenv`` set a variable to."""
        return [value for path in self._loaded() for value in self._in_file(path, name)]

    def field(self, ref: NodeRef) -> list[Value]:
        """Return what the environment sets a field of pydantic's settings to, given its declaration or default."""
        parents = ref.module.syntax.parents
        node = ref.node if isinstance(ref.node, ast.AnnAssign) else parents.get(ref.node)
        owner = parents.get(node) if isinstance(node, ast.AnnAssign) else None
        if not isinstance(owner, ast.ClassDef) or not owner.bases:
            return []
        assert isinstance(node, ast.AnnAssign)
        if not isinstance(node.target, ast.Name) or not self._is_settings(ref.module, owner):
            return []
        from gpulint.values.constants import Constants, Value

        settings = self._settings(ref.module, owner)
        name = f"{settings.get('env_prefix', '')}{node.target.id}"
        given = self._project.fact(Constants).options.set_by_jobs(name.upper())
        found = [Value(typed(str(value.value)), value.place, value.source) for value in given]
        written = settings.get("env_file", ())
        for path in () if found else self._files(ref.module, written if isinstance(written, tuple) else (written,)):
            found = self._in_file(path, name) or found  # of several files the last one counts
        return found

    def _is_settings(self, module: ModuleIndex, owner: ast.ClassDef) -> bool:
        return bool(_SETTINGS & self._project.fact(Resolver).base_names(module, owner))

    def _settings(self, module: ModuleIndex, owner: ast.ClassDef) -> dict[str, object]:
        """The constants of ``model_config = SettingsConfigDict(...)`` or of ``class Config``."""
        from gpulint.values.constants import Constants

        given: list[tuple[ModuleIndex, str, ast.expr]] = []
        resolver = self._project.fact(Resolver)
        for where, binding in resolver.class_attribute(module, owner, "model_config"):
            match binding.value:
                case ast.Call(keywords=keywords):
                    given += [(where, keyword.arg or "", keyword.value) for keyword in keywords]
                case ast.Dict(keys=keys, values=values):
                    named = zip(keys, values, strict=True)
                    given += [(where, str(key.value), one) for key, one in named if isinstance(key, ast.Constant)]
        for where, binding in resolver.class_attribute(module, owner, "Config"):
            if isinstance(binding.node, ast.ClassDef):
                for name, bindings in where.scope_of[binding.node].bindings.items():
                    given += [(where, name, one.value) for one in bindings if one.value is not None]
        found: dict[str, object] = {}
        for where, name, expression in given:
            known = self._project.fact(Constants).of(where, expression)
            if known.complete and len(known.values) == 1:
                found[name] = known.constants[0]
        return found

    @query
    def _loaded(self) -> tuple[Path, ...]:
        from gpulint.values.arguments import Arguments

        found: list[Path] = []
        for path in self._project.word_index.mentioning(word_of("dotenv")):
            module = self._project.module_at(path)
            if module is None or self._project.is_test(path):
                continue
            for call in (call for name in _LOADS for call in module.calls_by_name.get(name, [])):
                arguments = self._project.fact(Arguments)
                given = arguments.of(module, call, "dotenv_path", 0)
                known = arguments.value(module, call, "dotenv_path", 0)
                found += self._files(module, (".env",) if given.is_absent else tuple(known.constants))
        return tuple(dict.fromkeys(found))

    def _files(self, module: ModuleIndex, names: tuple[object, ...]) -> Iterator[Path]:
        """Files of these names, in the nearest folder around a program that has them."""
        for name in names:
            folder = module.path.parent
            while isinstance(name, str) and name and not name.startswith("/"):
                if self._project.is_file(folder / name):
                    yield folder / name
                    break
                if folder == self._project.root or folder == folder.parent:
                    break
                folder = folder.parent

    def _in_file(self, path: Path, name: str) -> list[Value]:
        """The last line of a file that sets a variable, whatever the case of its letters; never a secret."""
        from gpulint.values.constants import Value

        if _SECRET.search(name):
            return []
        data = self._project.data(path)
        if len(data) > MAX_SIZE:
            return []
        source = SourceText(data.decode("utf-8", "replace"))
        found: list[Value] = []
        for match in _LINE.finditer(source.text):
            text = match[2].strip("\"'")
            if match[1].upper() == name.upper() and "$" not in text and not _LOGIN.search(text):
                place = Place(path, source.span(match.start(2), match.end(2)), "set here")
                found = [Value(typed(text), place, "config")]
        return found
