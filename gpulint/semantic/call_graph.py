"""Where a function of the tree is called from, also when it is handed to something that calls it.

Deciding who calls a method takes the class of every candidate's receiver, so candidates are pre-filtered by name:
a module that never mentions the class is not asked, and a method name that half of the tree uses stays unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.semantic.argument_binding import RECEIVERS, binds, callback_call
from gpulint.semantic.namespace_constructors import calls_with_namespace
from gpulint.semantic.overridden_methods import subclasses_of
from gpulint.semantic.registries import calls_through_tables
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, last_name
from gpulint.workspace.summaries import is_plain
from gpulint.workspace.users import MAX_USERS
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.semantic.points_to import Resolver

MAX_RECEIVERS = 40
"""Most calls ``x.name(...)`` whose receiver is looked into for one method."""

MAX_STRANGERS = 12
"""Most files that may mention a method's name for those to be searched that do not mention its class."""

_SPAWN = frozenset({"torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn"})
LOOKED_AT = regex.compile(
    r"(^|_)(save|log|print|signature|source|getsource|inspect|isinstance|describe)(_|$)|^get_?doc"
)
"""Names of what is handed a function to look at it, not to call it."""
_RUNS = frozenset({"Thread", "Process", "Timer", "start_new_thread", "submit", "notebook_launcher", "run"})


def call_sites(
    project: Project, resolver: Resolver, module: ModuleIndex, function: FunctionNode
) -> Iterator[tuple[ModuleIndex, ast.Call]]:
    """Calls that reach ``function``, in file order; those that only hand it over come when nobody calls it by name, and
    those that raise an error, as they do not fit its parameters, when no other does."""
    failing = list[tuple[ModuleIndex, ast.Call]]()
    found = False
    for where, call in all_call_sites(project, resolver, module, function):
        if binds(function, call):
            found = True
            yield where, call
        else:
            failing.append((where, call))
    if not found:
        yield from failing


def all_call_sites(
    project: Project, resolver: Resolver, module: ModuleIndex, function: FunctionNode
) -> Iterator[tuple[ModuleIndex, ast.Call]]:
    """The same, with the calls that do not fit the parameters."""
    owner = module.syntax.parents.get(function)
    home = owner if isinstance(owner, ast.ClassDef) else None
    name = function.name
    if home is not None and name == "__call__":
        yield from _instance_calls(project, resolver, module, function, home)
    if home is not None and name in ("__call__", "forward"):
        return
    wanted = home.name if home is not None and name == "__init__" else name
    targets = resolver.names(module, home if wanted != name and home is not None else function)
    # Of nested functions there may be several of a name, and so of those in the cells of a notebook.
    nested = module.function(function) is not None or (home is None and _is_defined_again(module, function))
    # Tests pass tiny models and batches: what they hand in says nothing about a job.
    tested = project.is_test(module.path)
    users: list[ModuleIndex] = []
    found = False
    # A base class calls what its subclasses override (`self.train_step(batch)`), and knows nothing of their modules.
    mro = resolver.mro(module, home)[1:] if home is not None and wanted == name else []
    above = {owner: where for where, owner in mro}
    called_from = project.callers_of(module, {wanted}, home.name if home is not None else None, tests=tested)
    # Who makes an object of a subclass need not name the base whose method it calls.
    below = _inheriting(project, home, name) if home is not None and wanted == name else []
    below_from = (project.callers_of(other, {wanted}, one.name, tests=tested) for other, one in below)
    for where in chain(called_from, above.values(), *below_from):
        if where in users or (not tested and project.is_test(where.path)):
            continue
        users.append(where)
        sought = _Sought(function, home, wanted, targets, nested, above, frozenset(one.name for _, one in below))
        for call in _calls_in(project, resolver, where, sought):
            found = True
            yield where, call
    if home is not None and name == "__init__":
        yield from _inherited_constructors(project, resolver, function, home, tested)
        yield from calls_with_namespace(project, resolver, module, home, function)
    if not found and home is not None and wanted == name:
        yield from _calls_by_strangers(project, resolver, module, function, users)
    if not found and (home is None or name == "__init__"):
        yield from calls_through_tables(project, resolver, module, function, wanted)
    if not found and home is None:
        for where in users:
            for value, made in _handed_over(resolver, where, wanted, targets):
                if not nested or _is_local(resolver, where, value, function):
                    yield where, made


def _inheriting(project: Project, home: ast.ClassDef, name: str) -> list[tuple[ModuleIndex, ast.ClassDef]]:
    """The subclasses of a class that have no method of a name of their own."""
    below = subclasses_of(project, home) or ()
    return [(where, one) for where, one in below if all(getattr(part, "name", "") != name for part in one.body)]


def _is_defined_again(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a module's top defines several functions of the same name, none in a branch."""
    found = [one.node for one in module.top.bindings.get(function.name, ())]
    return len(found) > 1 and all(isinstance(one, FUNCTIONS) and one in module.syntax.tree.body for one in found)


class _Sought(NamedTuple):
    """A function whose calls are searched for, as far as that is the same for all modules."""

    function: FunctionNode
    home: ast.ClassDef | None
    wanted: str
    targets: frozenset[str]
    nested: bool
    above: Container[ast.ClassDef]
    below: frozenset[str] = frozenset()


def _calls_in(project: Project, resolver: Resolver, where: ModuleIndex, sought: _Sought) -> Iterator[ast.Call]:
    """Calls of one module that reach a function by its name."""
    function, home, wanted, targets, nested, above, below = sought
    for alias in sorted(_aliases(where, wanted)):
        receivers = 0
        for call in where.calls_by_name.get(alias, []):
            if isinstance(call.func, ast.Name):
                named = not nested and resolver.names(where, call.func) & targets
                reached = bool(named) or _is_local(resolver, where, call.func, function)
            else:
                receivers += 1
                reached = receivers <= MAX_RECEIVERS and _is_received(
                    project, resolver, where, call, function, home, targets, above, below
                )
            if reached:
                yield call


def plain_function(module: ModuleIndex, name: str) -> FunctionNode | None:
    """The one function of a name that a module defines outside of all classes and functions."""
    found = [function for function in module.functions if function.name == name]
    return found[0] if len(found) == 1 and is_plain(module, found[0]) else None


def plain_callers(project: Project, home: Path, name: str) -> list[Path] | None:
    """Files that may call a plain function of the module ``home`` by its name, in the order of :func:`call_sites`; None
    if that searches no more than a part of them. None of them is parsed for that."""
    paths = project.files_using(home, name)
    if len(paths) > MAX_USERS:
        return None
    tested = project.is_test(home)
    return [path for path in paths if tested or not project.is_test(path)]


def plain_calls(
    project: Project, resolver: Resolver, where: ModuleIndex, module: ModuleIndex, function: FunctionNode
) -> Iterator[ast.Call]:
    """Calls by name of a plain function of ``module`` in one of the modules that :func:`plain_callers` names."""
    targets = resolver.names(module, function)
    yield from _calls_in(project, resolver, where, _Sought(function, None, function.name, targets, False, ()))


def _inherited_constructors(
    project: Project, resolver: Resolver, function: FunctionNode, home: ast.ClassDef, tested: bool
) -> Iterator[tuple[ModuleIndex, ast.Call]]:
    """``super().__init__(...)`` in the constructors of subclasses, and ``Subclass(...)`` of those that have none."""
    for path in sorted(project.word_index.subclass_files(word_of(home.name))):
        where = project.module_at(path) if tested or not project.is_test(path) else None
        for subclass in where.classes if where is not None else ():
            assert where is not None
            if subclass is home or all(owner is not home for _, owner in resolver.mro(where, subclass)):
                continue
            own = next((part for part in subclass.body if getattr(part, "name", "") == "__init__"), None)
            if isinstance(own, FUNCTIONS):
                for call in where.calls_by_name.get("__init__", []):
                    if where.function(call) is own and _reaches(resolver, where, call, function):
                        yield where, call
                continue
            made = resolver.method(where, subclass, "__init__")
            if made is None or made.node is not function:
                continue
            targets = resolver.names(where, subclass)
            for user in project.callers_of(where, {subclass.name}, tests=tested):
                for call in (
                    call for alias in _aliases(user, subclass.name) for call in user.calls_by_name.get(alias, [])
                ):
                    if (tested or not project.is_test(user.path)) and resolver.names(user, call.func) & targets:
                        yield user, call


def _reaches(resolver: Resolver, where: ModuleIndex, call: ast.Call, function: FunctionNode) -> bool:
    return any(ref.node is function for ref in resolver.callees(where, call))


def _calls_by_strangers(
    project: Project, resolver: Resolver, module: ModuleIndex, function: FunctionNode, asked: list[ModuleIndex]
) -> Iterator[tuple[ModuleIndex, ast.Call]]:
    """Calls of a method in modules that name neither its class nor its module: they get an instance handed
    (``def train(self, replay_buffer): replay_buffer.sample()``)."""
    paths = project.word_index.mentioning(word_of(function.name))
    if len(paths) > MAX_STRANGERS:
        return
    tested = project.is_test(module.path)
    for path in paths:
        if (not tested and project.is_test(path)) or not project.calls(path, function.name):
            continue
        where = project.module_at(path)
        if where is None or where in asked:
            continue
        for call in where.calls_by_name.get(function.name, [])[:MAX_RECEIVERS]:
            if isinstance(call.func, ast.Attribute) and _reaches(resolver, where, call, function):
                yield where, call


def _instance_calls(
    project: Project, resolver: Resolver, module: ModuleIndex, function: FunctionNode, home: ast.ClassDef
) -> Iterator[tuple[ModuleIndex, ast.Call]]:
    """Calls of instances (``stopper = EarlyStopping()`` ... ``stopper(loss)``), which go by the names that instances
    are kept under where the class is called."""
    tested = project.is_test(module.path)
    asked = set[ModuleIndex]()
    for maker in project.callers_of(module, {home.name}):
        made = (call for alias in _aliases(maker, home.name) for call in maker.calls_by_name.get(alias, []))
        held = {name for call in made for name in _kept_as(maker, call)}
        for where in project.callers_of(maker, held, tests=tested):
            if where in asked or (not tested and project.is_test(where.path)):
                continue
            asked.add(where)
            for call in (call for name in sorted(held) for call in where.calls_by_name.get(name, [])[:MAX_RECEIVERS]):
                if _reaches(resolver, where, call, function):
                    yield where, call


def _kept_as(where: ModuleIndex, made: ast.Call) -> Iterator[str]:
    """Names of variables, attributes and parameters that get what a call makes."""
    match where.syntax.parents.get(made):
        case ast.Assign(targets=targets):
            yield from (last_name(target) for target in targets if isinstance(target, ast.Name | ast.Attribute))
        case ast.AnnAssign(target=ast.Name() | ast.Attribute() as target):
            yield last_name(target)
        case ast.keyword(arg=str(name)):
            yield name


def _aliases(where: ModuleIndex, wanted: str) -> set[str]:
    """Names under which a module may call what is defined as ``wanted``."""
    return {wanted} | where.aliases.get(wanted, set())


def _is_local(resolver: Resolver, where: ModuleIndex, value: ast.expr, function: FunctionNode) -> bool:
    """A nested function or one that was assigned to a variable first."""
    return any(ref.node is function for ref in resolver.points_to(where, value))


def _is_received(
    project: Project,
    resolver: Resolver,
    where: ModuleIndex,
    call: ast.Call,
    function: FunctionNode,
    home: ast.ClassDef | None,
    targets: frozenset[str],
    above: Container[ast.ClassDef],
    below: frozenset[str],
) -> bool:
    """Return whether ``x.name(...)`` reaches ``function``, in a class ``above`` its own also as an override, and of an
    object of its own class or one ``below``."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        return False
    if home is None or function.name == "__init__":
        return bool(resolver.names(where, func) & targets)
    if isinstance(func.value, ast.Name) and func.value.id in RECEIVERS:
        owner = where.class_of(call)
        if owner in above:
            return True
        method = resolver.method(where, owner, func.attr) if owner is not None else None
        return method is not None and method.node is function
    if not any(project.word_index.holds(where.path, word_of(one)) for one in (home.name, *sorted(below))):
        return False
    return _reaches(resolver, where, call, function)


def _handed_over(
    resolver: Resolver, where: ModuleIndex, wanted: str, targets: frozenset[str]
) -> Iterator[tuple[ast.expr, ast.Call]]:
    """(the function as it is handed over, the call that stands for what is made of it)."""
    for call, value in where.handed_over.get(wanted, []):
        if LOOKED_AT.search(last_name(call.func)) or not resolver.names(where, value) & targets:
            continue
        passed: list[ast.expr] = []
        named: dict[str, ast.expr] = {}
        if last_name(call.func) in _RUNS or resolver.call_names(where, call) & _SPAWN:
            given = keyword_value(call, "args")
            if given is None and len(call.args) > 1 and isinstance(call.args[1], ast.Tuple):
                given = call.args[1]
            passed = list(given.elts) if isinstance(given, ast.Tuple | ast.List) else []
            named = _in_dictionary(resolver, where, call, "kwargs")
        elif last_name(call.func).endswith("Trainer"):  # of Ray Train and of Kubeflow
            passed = [keyword.value for keyword in call.keywords if keyword.arg == "train_loop_config"]
            named = _in_dictionary(resolver, where, call, "func_args")
        shifted = bool(resolver.call_names(where, call) & _SPAWN)
        yield value, callback_call(where, call, value, passed, named, shifted)


def _in_dictionary(resolver: Resolver, where: ModuleIndex, call: ast.Call, option: str) -> dict[str, ast.expr]:
    """Return what the dictionary of the module that a call takes as ``option`` hands over by name."""
    given = keyword_value(call, option)
    made = resolver.points_to(where, given) if given is not None else ()
    return {
        key.value: value
        for ref in made[:1]
        if isinstance(ref.node, ast.Dict) and ref.module is where
        for key, value in zip(ref.node.keys, ref.node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def calls_taking(resolver: Resolver, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...]:
    """Calls of the function's own module that get it as an argument (``forward_backward(step, loader)``)."""
    return tuple(
        NodeRef(module, call)
        for call, value in module.handed_over.get(function.name, [])
        if not LOOKED_AT.search(last_name(call.func))
        and any(ref.node is function for ref in resolver.points_to(module, value))
    )
