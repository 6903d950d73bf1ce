"""Loaders over which nothing passes: they are counted, asked for their data set, or handed to a framework only, or one
batch is taken for a look."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.overridden_methods import overrides
from gpulint.semantic.path_conditions import is_unreachable
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.first_batches import is_first, is_search
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import Binding, FunctionNode

    Path: TypeAlias = tuple[int | str, ...]
    """Where a tuple or a dictionary has a loader: an index, or a key, of each around it."""

_COUNTED = frozenset("dataset batch_size num_workers sampler batch_sampler collate_fn drop_last pin_memory".split())
"""Attributes of a loader that say how it is set up."""
_LOOKED_AT = frozenset({"len", "print", "type", "isinstance", "id", "repr", "bool"})
"""Functions that draw no batch of what they are given."""
_PLAIN_BASES = frozenset({"object", "ABC", "Dataset", "Module"})
"""Bases that call no method of their subclasses for a loader."""
_LOOKS_UP = ("locals", "globals", "vars", "exec", "eval")
"""Functions that find a variable without naming it."""


class UndrawnLoaders:
    """Answers for the loaders of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        rows = project.models.rows("mover")
        self._prepares = {name for row in rows for name in row.prepares}

    def is_undrawn(self, loader: Loader) -> bool:
        """Return whether all that is done with a loader is seen, and nothing draws a batch from it. A name of a module
        that nothing in it reads is there for others, as far as is known."""
        return self._is_all_seen(loader.module, loader.node) and self._is_left(loader.module, loader.node, (), False)

    def is_kept_for_nothing(self, module: ModuleIndex, made: ast.expr) -> bool:
        """Return whether the function that makes a loader hands it to others, and none of them draws from it."""
        return module.function(made) is not None and self._is_left(module, made, (), False)

    def is_left(self, module: ModuleIndex, made: ast.expr, path: Path) -> bool:
        """Return whether nothing draws from what an expression evaluates to, or has at ``path``."""
        return self._is_left(module, made, path, False)

    def only_first_batches(self, module: ModuleIndex, made: ast.expr) -> bool:
        """Return whether all that is drawn from a loader is ``next(iter(loader))``: one batch, for a look, for which
        workers would be started. The methods of a class that keeps it may also search it, if most take one batch."""
        return self._draws_by_hand(module) and self._is_all_seen(module, made) and self._is_left(module, made, (), True)

    @query
    def _draws_by_hand(self, module: ModuleIndex) -> bool:
        """Return whether a module, or one that it imports, makes an iterator by itself."""
        files = (module.path, *self._project.imported(module.path))
        return any(self._project.word_index.holds(path, b"iter") for path in files)

    def _is_all_seen(self, module: ModuleIndex, made: ast.expr) -> bool:
        """Return whether what a file does with a loader can be read, and it does anything with it."""
        document = self._project.document(module.path)
        if document is None or any(problem.is_error for problem in document.problems):
            return False  # cells that cannot be read may draw from it
        if module.function(made) is not None:
            return True
        up = module.syntax.parents.get(made)
        match module.syntax.parents.get(up) if isinstance(up, ast.IfExp) else up:
            case ast.Assign(targets=[ast.Name(id=name)]):
                return bool(module.uses.get(name))
        return False

    @cyclic(True)
    def _is_left(self, module: ModuleIndex, value: ast.expr, path: Path, looks: bool) -> bool:
        """Return whether nothing draws from what an expression evaluates to, or has at ``path``; if ``looks``, but one
        batch at a time."""
        if is_unreachable(module, value):
            return True
        up = module.syntax.parents.get(value)
        match up:
            case ast.Assign(targets=[ast.Name() as target], value=assigned) if assigned is value:
                return self._is_name_left(module, target, up, path, looks)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=kept)], value=assigned):
                if assigned is not value or path:
                    return False
                return self._is_looked_at(module, up, kept) if looks else self._is_attribute_left(module, up, kept)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name() as table, slice=ast.Constant(value=str(key)))]):
                return self._is_table_left(module, table, (key, *path), looks)
            case ast.Assign(targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)]) if path and path[0] in range(
                len(targets)
            ):
                part = targets[int(path[0])]
                known = isinstance(part, ast.Name) and not any(isinstance(one, ast.Starred) for one in targets)
                return known and self._is_name_left(module, part, up, path[1:], looks)  # type: ignore[arg-type]
            case ast.Tuple(elts=parts) if not any(isinstance(part, ast.Starred) for part in parts):
                return self._is_left(module, up, (parts.index(value), *path), looks)
            case ast.Dict(keys=keys, values=parts) if all(isinstance(key, ast.Constant) for key in keys):
                under = keys[parts.index(value)] if value in parts else None
                name = under.value if isinstance(under, ast.Constant) else None
                return isinstance(name, str) and self._is_left(module, up, (name, *path), looks)
            case ast.Return():
                function = module.function(value)
                return function is not None and self._is_result_left(module, function, path, looks)
            case ast.Attribute(attr=name):
                return name in _COUNTED and not path
            case ast.IfExp(test=test) | ast.If(test=test) if test is value:
                return True
            case ast.IfExp() | ast.BoolOp():
                return self._is_left(module, up, path, looks)
            case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
                return True
            case ast.Subscript(ctx=ast.Store()) if path:
                return True
            case ast.Subscript(slice=index) if path:
                return self._is_another(module, index, path[0]) or self._is_left(module, up, path[1:], looks)
            case ast.keyword() | ast.Call():
                call = module.syntax.parents.get(up) if isinstance(up, ast.keyword) else up
                return isinstance(call, ast.Call) and self._is_argument_left(module, call, value, path, looks)
        return False

    def _is_name_left(self, module: ModuleIndex, target: ast.Name, made: ast.AST, path: Path, looks: bool) -> bool:
        """Return whether nothing draws from a variable as one assignment sets it."""
        home, name = module.scope(target), target.id
        bindings = home.lookup(name)
        own = [binding for binding in bindings if binding.node is made]
        if not own or name in home.outer or _looks_up(module):
            return False
        if isinstance(home.node, ast.ClassDef):
            return False
        if module.function(made) is None and self._is_named_elsewhere(module, name):
            return False
        for use in module.uses.get(name, ()):
            if module.scope(use).lookup(name) is not bindings or own[0] not in reaching(module, bindings, use):
                continue
            if not self._is_left(module, use, path, looks):
                return False
        return True

    def _is_table_left(self, module: ModuleIndex, table: ast.Name, path: Path, looks: bool) -> bool:
        """Return whether nothing draws from what is stored in a dictionary that a function makes for itself."""
        home = module.scope(table)
        bindings = home.bindings.get(table.id, [])
        if not bindings or table.id in home.outer or _looks_up(module) or isinstance(home.node, ast.ClassDef):
            return False
        if any(not isinstance(binding.value, ast.Dict) or binding.path for binding in bindings):
            return False
        if home.parent is None and self._is_named_elsewhere(module, table.id):
            return False
        uses = (use for use in module.uses.get(table.id, ()) if module.scope(use).lookup(table.id) is bindings)
        return all(self._is_left(module, use, path, looks) for use in uses if use is not table)

    def _is_attribute_left(self, module: ModuleIndex, stored: ast.Assign, name: str) -> bool:
        """Return whether nothing in the tree reads an attribute of that name, which only its own class could know of:
        ``self.val_loader = val_loader`` of a class without bases elsewhere."""
        owner = module.class_of(stored)
        if owner is None or any(last_name(base) not in _PLAIN_BASES for base in owner.bases) or owner.keywords:
            return False
        users = map(self._project.module_at, self._project.word_index.mentioning(word_of(name)))
        return all(
            user is not None
            and name not in user.strings
            and not any(part.attr == name and isinstance(part.ctx, ast.Load) for part in user.syntax.of(ast.Attribute))
            for user in users
        )

    def _is_looked_at(self, module: ModuleIndex, stored: ast.Assign, name: str) -> bool:
        """Return whether most of what reads an attribute of a class without subclasses takes one batch of the loader
        that it keeps, and nothing does more than to search it until something is found."""
        owner = module.class_of(stored)
        if owner is None or any(last_name(base) not in _PLAIN_BASES for base in owner.bases) or owner.keywords:
            return False
        firsts = searches = 0
        for path in self._project.word_index.mentioning(word_of(name)):
            user = self._project.module_at(path)
            if user is None or name in user.strings:
                return False
            for read in (part for part in user.syntax.of(ast.Attribute) if part.attr == name):
                if isinstance(read.ctx, ast.Store) or not self._may_read(user, read, owner):
                    continue
                if self._is_left(user, read, (), False):
                    continue
                looks, seeks = self._is_left(user, read, (), True), is_search(user, read)
                firsts, searches = firsts + looks, searches + seeks
                if not looks and not seeks:
                    return False
        return firsts > searches and not self._has_subclass(owner)

    def _may_read(self, module: ModuleIndex, read: ast.Attribute, owner: ast.ClassDef) -> bool:
        """Return whether what an attribute is read of may be an object of a class."""
        around = module.class_of(read)
        if isinstance(read.value, ast.Name) and read.value.id == "self" and around is not None:
            return around is owner
        known = self._project.fact(Resolver).classes_of(module, read.value)
        return not known or any(one is owner for _, one in known)

    def _has_subclass(self, owner: ast.ClassDef) -> bool:
        """Return whether a class of the tree names another one as its base."""
        users = map(self._project.module_at, self._project.word_index.mentioning(word_of(owner.name)))
        return any(
            user is None or any(last_name(base) == owner.name for one in user.classes for base in one.bases)
            for user in users
        )

    def _is_another(self, module: ModuleIndex, index: ast.expr, key: int | str) -> bool:
        """Return whether an index, or each value that it may have, is another one than a key."""
        if isinstance(index, ast.Constant):
            return index.value != key
        bindings = module.scope(index).lookup(index.id) if isinstance(index, ast.Name) else []
        if bindings and all(binding.kind is BindingKind.LOOP for binding in bindings):
            return all(key not in (self._listed(module, binding) or (key,)) for binding in bindings)
        return isinstance(key, str) and self._project.fact(Constants).of(module, index).every(lambda one: one != key)

    def _listed(self, module: ModuleIndex, binding: Binding) -> list[object]:
        """The constants that a loop goes over; empty if any is unknown, or methods of their list are called."""
        listed = last_name(binding.value) if binding.value is not None else ""
        uses = map(module.syntax.parents.get, module.uses.get(listed, ()))
        if any(isinstance(up, ast.Attribute) for up in uses):
            return []
        found = [] if binding.value is None else self._project.fact(Resolver).points_to(module, binding.value)
        parts: list[ast.expr] = []
        for ref in found:
            if binding.path or ref.path or not isinstance(ref.node, ast.List | ast.Tuple):
                return []
            parts += ref.node.elts
        return [part.value for part in parts if isinstance(part, ast.Constant)] if _are_constants(parts) else []

    def _is_named_elsewhere(self, module: ModuleIndex, name: str) -> bool:
        """Return whether another file, or a text of the module, may mean a variable of the module."""
        return any(name == text for text in module.strings) or any(
            path != module.path for path in self._project.files_using(module.path, name)
        )

    def _is_result_left(self, module: ModuleIndex, function: FunctionNode, path: Path, looks: bool) -> bool:
        """Return whether no call of a function, all of which are seen, draws from its result. A framework may call
        the methods of its subclasses, such as ``train_dataloader``."""
        owner = module.syntax.parents.get(function)
        if isinstance(owner, ast.ClassDef) and any(last_name(base) not in _PLAIN_BASES for base in owner.bases):
            return False
        sites = {site.node: site.module for site in self._project.fact(Resolver).call_sites(module, function)}
        paths = self._project.word_index.mentioning(word_of(function.name))
        users = map(self._project.module_at, paths)
        return (
            bool(sites)
            and all(user is not None and self._is_called_only(user, function, sites) for user in users)
            and all(
                isinstance(call, ast.Call) and self._is_left(where, call, path, looks) for call, where in sites.items()
            )
        )

    def _is_called_only(
        self, module: ModuleIndex, function: FunctionNode, sites: Mapping[ast.AST, ModuleIndex]
    ) -> bool:
        """Return whether a module names a function only to call it, or means another one that is known."""
        name = function.name
        named = [*module.uses.get(name, ()), *(node for node in module.syntax.of(ast.Attribute) if node.attr == name)]
        calls = [module.syntax.parents.get(node) for node in named]
        return name not in module.strings and all(
            isinstance(call, ast.Call)
            and call.func is node
            and (call in sites or bool(self._project.fact(Resolver).callees(module, call)))
            for call, node in zip(calls, named, strict=True)
        )

    def _is_argument_left(self, module: ModuleIndex, call: ast.Call, value: ast.expr, path: Path, looks: bool) -> bool:
        """Return whether a call that is given a loader draws no batch from it, nor does anything that it returns."""
        if value not in call.args and all(keyword.value is not value for keyword in call.keywords):
            return False
        if isinstance(call.func, ast.Name) and call.func.id in _LOOKED_AT:
            return True
        if looks and not path and last_name(call.func) == "iter" and is_first(module, call):
            return True
        given = list(self._parameters(module, call, value))
        if not given and not path and last_name(call.func) in self._prepares and value in call.args:
            return self._is_left(module, call, (call.args.index(value),) if len(call.args) > 1 else (), looks)
        return bool(given) and all(self._is_parameter_left(function, name, path, looks) for function, name in given)

    def _parameters(self, module: ModuleIndex, call: ast.Call, value: ast.expr) -> Iterator[tuple[NodeRef, str]]:
        """The parameters of functions of the tree that get an argument; none if others may be called."""
        resolver = self._project.fact(Resolver)
        callees = resolver.callees(module, call)
        replaced = [overrides(self._project, callee) for callee in callees]
        if len(callees) != len(resolver.points_to(module, call.func)) or None in replaced:
            return
        for callee in dict.fromkeys((*callees, *(one for found in replaced for one in found or ()))):
            assert isinstance(callee.node, (*FUNCTIONS, ast.Lambda))
            given = (
                [name for name in sorted(parameters(callee.node)) if argument_of(callee.node, call, name) is value]
                if isinstance(callee.node, FUNCTIONS)
                else []
            )
            yield callee, given[0] if given else ""

    def _is_parameter_left(self, function: NodeRef, name: str, path: Path, looks: bool) -> bool:
        """Return whether a function does not draw from its parameter."""
        module = function.module
        if not name or not isinstance(function.node, FUNCTIONS):
            return False
        if _looks_up(module):
            return False
        home = module.scope_of[function.node]
        bindings = home.bindings.get(name, [])
        uses = (use for use in module.uses.get(name, ()) if module.scope(use).lookup(name) is bindings)
        return bool(bindings) and all(self._is_left(module, use, path, looks) for use in uses)


def _are_constants(parts: list[ast.expr]) -> bool:
    return all(isinstance(part, ast.Constant) for part in parts)


@query
def _looks_up(module: ModuleIndex) -> bool:
    """Return whether a module may find a variable without naming it."""
    return any(
        isinstance(call.func, ast.Name) and (name != "vars" or not call.args)
        for name in _LOOKS_UP
        for call in module.calls_by_name.get(name, ())
    )
