"""Models, data sets and metrics that calls take from the Hugging Face hub, and artifacts of Weights & Biases."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.base import LAUNCHERS
from gpulint.documents.python import walk
from gpulint.libraries import downloads as tables
from gpulint.libraries.hub_ids import is_data_set_id, is_model_id
from gpulint.libraries.operations import HubAlias, HubDownload
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.transfers.download import Download, callee
from gpulint.transfers.download_table import DownloadTable
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Constants
from gpulint.values.table_rows import may_be_given
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpulint.finding import Place
    from gpulint.project import Project
    from gpulint.values.constants import ConstantSet


_FETCH = frozenset({"snapshot_download", "hf_hub_download"})
"""Functions of the hub that return where they have put what they fetched."""
_ON_DISK = frozenset({"exists", "isdir", "isfile", "is_dir", "is_file"})
_SETTINGS = regex.compile(r"\.(json|txt|md|ya?ml|model|jinja|py)$")
"""Ends of patterns for files without weights."""


class HubDownloads:
    """Hub downloads of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def of(self, module: ModuleIndex, call: ast.Call, row: HubDownload) -> Download | None:
        name, kind = row.name, row.what
        if not self._asks_hub(module, call, row):
            return None
        if self._is_small(module, call, name) or self._is_streamed(module, call):
            return None
        given = self._project.fact(Arguments).of(module, call, "data_files")
        files = name == "load_dataset" and not given.is_absent
        known = self._identifier(module, call, row)
        if any(isinstance(ref.node, ast.Call) and last_name(ref.node.func) in _FETCH for ref in known.unknown):
            return None  # the path of what was fetched there
        if self._is_looked_up(module, call):
            return None
        launched = any(value.source == "launcher" for value in known.values)
        near = (self._project.root, module.path.parent)
        for value in known.values:
            text = value.value
            if not isinstance(text, str) or self._is_written(module, call, text):
                continue
            if not may_be_given(self._project, module, call, value.place):
                continue
            if launched and value.source == "environment":
                continue  # a default, where a launcher sets the variable
            if files and "/" not in text:
                continue  # a builder that reads the files
            if self._is_id(text, row, near):
                place = value.place if value.place.path != module.path or value.source != "literal" else None
                what, origin = self._loaded(module, call, text)
                return Download(NodeRef(module, call), callee(call), what, origin, kind, place)
        if name == "snapshot_download" and known.unknown and not known.values and not _is_parameter(known):
            return Download(NodeRef(module, call), callee(call), "", f"from {tables.HUB}", kind)
        if name == "from_pretrained" and (adapter := self._adapter(module, call, known, row)) is not None:
            what = f"the base model of {adapter.what}"
            return Download(NodeRef(module, call), callee(call), "", f"{what} from {tables.HUB}", kind, adapter.place)
        return None

    def launched(self, module: ModuleIndex, call: ast.Call, row: HubDownload) -> Iterator[tuple[str, Place]]:
        """Identifiers that launchers of the tree give a call of the hub, each with its place in the launcher."""
        if not self._asks_hub(module, call, row):
            return
        alias = self._alias(module, call)
        if alias is not None and (alias.hub or not alias.owner):
            return
        for value in self._identifier(module, call, row).values:
            text, place = value.value, value.place
            if not isinstance(text, str) or self._project.kind(place.path) not in LAUNCHERS:
                continue
            if place.path != module.path and self._is_id(text, row, (self._project.root, module.path.parent)):
                yield text, place

    def _asks_hub(self, module: ModuleIndex, call: ast.Call, row: HubDownload) -> bool:
        names = self._project.fact(Resolver).call_names(module, call)
        if not any(full.startswith(row.modules) for full in names) and "" not in row.modules:
            return False
        if not row.modules[0] and not self._is_hub_class(module, call):
            return False
        return not self._project.fact(Arguments).value(module, call, "local_files_only").any(bool)

    def _is_id(self, text: str, row: HubDownload, near: tuple[Path, ...]) -> bool:
        """Return whether a text names a model or data set of the hub, as a call takes it."""
        if row.what != "weights":
            return text not in tables.LOCAL_BUILDERS and is_data_set_id(text, near, self._project.exists)
        return is_model_id(text, near, self._project.exists) or (
            row.name == "SentenceTransformer" and bool(re.fullmatch(r"[\w.-]*-[\w.-]+", text))
        )

    def _is_looked_up(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether a copy on the disk counts first, by a function that looks for it (``resolve("org/name")``) or
        a test around the call, or a table that a configuration fills gives the name."""
        given = call.args[0] if call.args else None
        if isinstance(given, ast.Call) and any(
            isinstance(part, ast.Call) and last_name(part.func) in _ON_DISK
            for ref in self._project.fact(Resolver).callees(module, given)
            for part in walk(ref.node)
        ):
            return True
        if isinstance(given, ast.Subscript) and any(
            isinstance(fill.func, ast.Attribute) and ast.unparse(fill.func.value) == ast.unparse(given.value)
            for fill in module.calls_by_name.get("update", ())
        ):
            return True
        return any(
            not wanted and isinstance(part, ast.Call) and last_name(part.func) in _ON_DISK
            for test, holds in conditions(module, call)
            for part, wanted in parts_of(test, holds)
        )

    def _is_small(self, module: ModuleIndex, call: ast.Call, name: str) -> bool:
        """Return whether a call fetches only labels or settings of a repository."""
        arguments = self._project.fact(Arguments)
        if name == "hf_hub_download":
            return arguments.value(module, call, "filename", 1).every(
                lambda value: bool(tables.LABELS.search(str(value)))
            )
        if name != "snapshot_download":
            return False
        patterns = next((word.value for word in call.keywords if word.arg == "allow_patterns"), None)
        listed = patterns.elts if isinstance(patterns, ast.List | ast.Tuple) else [patterns]
        return all(
            isinstance(item, ast.Constant) and _SETTINGS.search(str(item.value)) is not None for item in listed if item
        ) and any(listed)

    def _is_streamed(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether samples are fetched when they are drawn (``streaming=True``), and none before."""
        return self._project.fact(Arguments).value(module, call, "streaming").every(lambda value: value is True)

    def _loaded(self, module: ModuleIndex, call: ast.Call, text: str) -> tuple[str, str]:
        """Return what a call loads for an identifier, "" if its library chooses among copies, and where from."""
        alias = self._alias(module, call)
        if alias is None or (alias.unless and re.fullmatch(alias.unless, text)):
            return text, f"from {tables.HUB}"
        if alias.hub:
            return text, f"from {alias.hub}"
        if alias.exact and self._project.fact(Arguments).value(module, call, alias.exact).any(bool):
            return text, f"from {tables.HUB}"
        if alias.owner:
            return f"{alias.owner}/{text}", f"from {tables.HUB}"
        return "", f"its copy of {text!r} from {tables.HUB}"

    def _alias(self, module: ModuleIndex, call: ast.Call) -> HubAlias | None:
        rows = self._project.models.derived(DownloadTable).aliases
        names = self._project.fact(Resolver).call_names(module, call)
        return next((row for row in rows if any(name.startswith(row.modules) for name in names)), None)

    def artifact(self, module: ModuleIndex, call: ast.Call) -> Download | None:
        """``wandb.use_artifact("team/project/data:v0").download()``."""
        if not isinstance(call.func, ast.Attribute):
            return None
        for ref in self._project.fact(Resolver).points_to(module, call.func.value):
            if isinstance(ref.node, ast.Call) and last_name(ref.node.func) == "use_artifact" and ref.node.args:
                known = self._project.fact(Constants).of(ref.module, ref.node.args[0])
                what = next((value.value for value in known.values if isinstance(value.value, str)), "")
                return Download(NodeRef(module, call), callee(call), what, "from Weights & Biases", "data")
        return None

    def _adapter(self, module: ModuleIndex, call: ast.Call, known: ConstantSet, row: HubDownload) -> Download | None:
        """The hub's adapter whose configuration names the model (``config.base_model_name_or_path``).

        A module that loads a model before has that one already: it is most likely the adapter's base.
        """
        owner = last_name(getattr(call.func, "value", call.func))
        loads = module.calls_by_name.get("from_pretrained", [])
        if "Model" not in owner or any(
            load.lineno < call.lineno and last_name(getattr(load.func, "value", load.func)) == owner for load in loads
        ):
            return None
        for ref in known.unknown:
            if not isinstance(ref.node, ast.Attribute) or ref.node.attr != "base_model_name_or_path":
                continue
            for made in self._project.fact(Resolver).points_to(ref.module, ref.node.value):
                if isinstance(made.node, ast.Call) and last_name(made.node.func) == "from_pretrained":
                    return self.of(made.module, made.node, row)
        return None

    def _identifier(self, module: ModuleIndex, call: ast.Call, row: HubDownload) -> ConstantSet:
        arguments, parameter, position = self._project.fact(Arguments), row.argument, row.position
        owner = last_name(getattr(call.func, "value", call.func))
        if row.name == "from_pretrained" and owner.startswith("Peft") and not owner.endswith("Config"):
            parameter, position = "model_id", 1
        names = (parameter, *tables.PRETRAINED_PARAMETERS)
        name = next((name for name in names if not arguments.of(module, call, name, position).is_absent), parameter)
        known = arguments.value(module, call, name, position)
        if known.values:
            return known
        for ref in known.unknown:
            if isinstance(ref.node, ast.arg) and (bound := self._bound(ref.module, ref.node)) is not None:
                return bound
        return known

    def _bound(self, module: ModuleIndex, parameter: ast.arg) -> ConstantSet | None:
        """Return what ``Actor.remote(...)`` or ``Deployment.bind(...)`` of Ray passes to the constructor of a class."""
        function, owner = module.function(parameter), module.class_of(parameter)
        if owner is None or function is None or function.name != "__init__":
            return None
        for call in (*module.calls_by_name.get("bind", []), *module.calls_by_name.get("remote", [])):
            if isinstance(call.func, ast.Attribute) and last_name(call.func.value) in (owner.name, "options"):
                for keyword in call.keywords:
                    if keyword.arg == parameter.arg:
                        return self._project.fact(Constants).of(module, keyword.value)
        return None

    def _is_hub_class(self, module: ModuleIndex, call: ast.Call) -> bool:
        """False for a class of the tree that has no base from outside: its ``from_pretrained`` is its own."""
        if not isinstance(call.func, ast.Attribute):
            return False
        resolver = self._project.fact(Resolver)
        owners = [ref for ref in resolver.points_to(module, call.func.value) if isinstance(ref.node, ast.ClassDef)]
        for owner in owners:
            assert isinstance(owner.node, ast.ClassDef)
            bases = resolver.base_names(owner.module, owner.node)
            if not any(
                base.startswith(("transformers.", "diffusers.", "peft.", "huggingface_hub.", "trl.")) for base in bases
            ):
                return False
        return True

    def _is_written(self, module: ModuleIndex, call: ast.Call, text: str) -> bool:
        """Return whether the program itself saves a model under that name before."""
        saves = module.calls_by_name.get("save_pretrained", [])
        saves = [save for save in saves if save.lineno < call.lineno and save.args]
        return any(
            self._project.fact(Constants).of(module, save.args[0]).any(lambda value: value == text) for save in saves
        )


def _is_parameter(known: ConstantSet) -> bool:
    """Return whether a value is up to the callers of a function."""
    return any(isinstance(ref.node, ast.arg) for ref in known.unknown)
