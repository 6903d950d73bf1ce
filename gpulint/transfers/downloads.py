"""Downloads in the modules of a project: calls of known libraries, and calls of download helpers of the tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import with_defaults
from gpulint.libraries.dataset_classes import GRAPH_BASE
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.transfers.download import Download, callee
from gpulint.transfers.download_calls import FETCHES, DownloadCalls
from gpulint.transfers.download_table import DownloadTable
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

__all__ = ["OFFLINE_VARIABLES", "Download", "Downloads"]


_OFFLINE = regex.compile(
    r"""(HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE|HF_DATASETS_OFFLINE)["']\]?\s*[,=:]+\s*["']?(1|(?i:true|on|yes))"""
)
_HUB = frozenset({"huggingface_hub.snapshot_download", "huggingface_hub.hf_hub_download"})
MAX_HELPERS = 4
"""How many calls deep a download helper is followed."""
OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


class Downloads:
    """Downloads in the modules of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self._fetching = DownloadCalls(project)

    @query
    def in_module(self, module: ModuleIndex) -> tuple[Download, ...]:
        """Downloads of a module in source order; a helper that other modules call is named where they call it."""
        found = [item for item in self._own(module) if not self._hands_on(item)]
        taken = {item.node for item in found}
        found += [item for item in self._helpers(module) if item.node not in taken]
        found = [item for item in found if not self._is_helper_body(item)]
        return tuple(sorted(found, key=lambda item: (item.node.lineno, item.node.col_offset)))

    @query
    def _own(self, module: ModuleIndex) -> tuple[Download, ...]:
        """Calls of known downloaders in a module."""
        text = module.syntax.source.text
        offline = "OFFLINE" in text and bool(_OFFLINE.search(text))
        table = self._project.models.derived(DownloadTable)
        silent = any(package in text for package in table.packages)
        found = (self._fetching.of(module, call, offline) for call in table.calls(module, silent))
        return tuple(item for item in found if item is not None)

    def _hands_on(self, item: Download) -> bool:
        """Return whether the call reaches code of the tree whose own download is reported."""
        callees = self._project.fact(Resolver).callees(item.call.module, item.node)
        return item.name == item.what and any(self._contains(callee) for callee in callees)

    # -- helpers of the tree -------------------------------------------------------------------------------------------

    def _helpers(self, module: ModuleIndex) -> Iterator[Download]:
        """Calls of download helpers that stand in other modules.

        What they fetch is up to the caller, so a library that forwards its own parameters says nothing about a job.
        """
        program = self.is_program(module)
        for name, calls in module.calls_by_name.items():
            if not FETCHES.search(name) and not name.startswith("check_"):
                continue
            for call in calls:
                if not program and module.function(call) is not None and not self._names_own(module, call):
                    continue
                for made in self._project.fact(Resolver).callees(module, call):
                    if made.module is module or not isinstance(made.node, FUNCTIONS) or made.node.name == "__init__":
                        continue
                    if self._is_fetcher(made.node) and self._reaches(made):
                        yield Download(
                            NodeRef(module, call),
                            callee(call),
                            "",
                            "from outside",
                            "data",
                            self._project.fact(Constants).place(made),
                        )
                        break

    @staticmethod
    def _names_own(module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether a method fetches what its class itself names (``download(self.url(), path)``)."""
        match call.args[:1]:
            case [ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name))] | [
                ast.Attribute(value=ast.Name(id="self"), attr=name)
            ]:
                owner = module.class_of(call)
                return owner is not None and "url" in name.lower()
        return False

    def is_program(self, module: ModuleIndex) -> bool:
        """Return whether the module is started itself or trains, so that it runs with its own defaults."""
        return "__main__" in module.syntax.source.text or self._project.fact(LoopContexts).has_training_step(module)

    @staticmethod
    def _is_fetcher(function: FunctionNode) -> bool:
        if FETCHES.search(function.name):
            return True
        return any(
            parameter.arg in ("download", "autodownload", "auto_download")
            and isinstance(value, ast.Constant)
            and value.value is True
            for parameter, value in with_defaults(function.args)
        )

    def _contains(self, function: NodeRef) -> bool:
        return function.node in self._fetchers(function.module)

    @query
    def _fetchers(self, module: ModuleIndex) -> set[ast.AST]:
        """Return what a download of a module stands in."""
        calls = [item.node for item in self._own(module)]
        for name in ("snapshot_download", "hf_hub_download"):  # whatever the repository's name is
            named = module.calls_by_name.get(name, [])
            calls += [call for call in named if self._project.fact(Resolver).call_names(module, call) & _HUB]
        return {up for call in calls for up in module.syntax.ancestors(call)}

    def _reaches(self, function: NodeRef, helpers: int = MAX_HELPERS) -> bool:
        """Return whether a function of the tree downloads something, itself or through functions that it calls."""
        return helpers > 0 and isinstance(function.node, FUNCTIONS) and self._is_reaching(function, helpers)

    @query
    def _is_reaching(self, function: NodeRef, helpers: int) -> bool:
        assert isinstance(function.node, FUNCTIONS)
        return self._contains(function) or any(
            self._reaches(callee, helpers - 1)
            for call in self._calls_in(function.module).get(function.node, [])
            for callee in self._project.fact(Resolver).callees(function.module, call)
        )

    @query
    def _calls_in(self, module: ModuleIndex) -> dict[FunctionNode, list[ast.Call]]:
        """Function -> the calls in it, also those in functions inside it."""
        table = dict[FunctionNode, list[ast.Call]]()
        for call in module.calls:
            for up in module.syntax.ancestors(call):
                if isinstance(up, FUNCTIONS):
                    table.setdefault(up, []).append(call)
        return table

    def _is_helper_body(self, item: Download, depth: int = 3) -> bool:
        """Return whether the call is in a download helper that only other modules (or other such helpers) call."""
        module, function = item.call.module, item.call.module.function(item.node)
        if self._in_graph_data_set(module, item.node):
            return True
        return function is not None and self._is_called_elsewhere(module, function, depth)

    def _is_called_elsewhere(self, module: ModuleIndex, function: FunctionNode, depth: int) -> bool:
        if depth <= 0 or not self._is_fetcher(function):
            return False
        return self._find_called_elsewhere(module, function, depth)

    @query
    def _find_called_elsewhere(self, module: ModuleIndex, function: FunctionNode, depth: int) -> bool:
        sites = self._project.fact(Resolver).call_sites(module, function)
        here = [site for site in sites if site.module is module]
        for site in here:
            outer = module.function(site.node)
            if outer is function:
                continue
            if outer is None or not self._is_called_elsewhere(module, outer, depth - 1):
                return False
        return bool(sites)

    def _in_graph_data_set(self, module: ModuleIndex, node: ast.AST) -> bool:
        owner = module.class_of(node)
        function = module.function(node)
        if owner is None or function is None or function.name not in ("download", "_download"):
            return False
        return any(GRAPH_BASE.search(base) for base in self._project.fact(Resolver).base_names(module, owner))
