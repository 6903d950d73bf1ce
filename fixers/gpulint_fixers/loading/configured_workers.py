"""What a program's own options and settings say of workers and pinned memory, and its loader does not get."""

from __future__ import annotations

import ast
import re

from gpulint.documents.call_syntax import with_defaults
from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.argument_binding import RECEIVERS, argument_of, attribute_of, entry_of
from gpulint.semantic.declared_options import literal, option_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.values.constants import Constants
from gpulint.values.option_calls import declaring_calls
from gpulint.workspace.module_index import Binding, BindingKind, FunctionNode, ModuleIndex, NodeRef, Scope
from gpulint_fixers.loading.computed_workers import computed

_NAMES = (
    *("num_workers", "workers", "n_workers", "nworkers", "num_worker", "loader_workers", "dataloader_workers"),
    *("dataloader_num_workers", "data_workers", "num_data_workers"),
)
_OF_THREADS = ("num_threads", "n_threads", "nThreads", "n_cpu")
"""Names of options that mean workers of loaders where nothing else of the tree reads them."""
_PINNING = ("pin_memory", "pin_mem")
_RESTORED = frozenset({"num_workers", "pin_memory"})
"""Arguments that a line which is commented out may pass."""


def option(project: Project, loader: Loader) -> str | None:
    """``args.num_workers``, if other arguments of the call come from ``args``, and the program has such an option or
    setting, which is not 0; a parameter or a constant of the module; that of other options and sections of the
    settings, if only one has it, and the module reads it for nothing but loaders; before all of them a variable that is
    computed of one and that nothing else reads."""
    if (name := computed(project, loader, _NAMES)) is not None:
        return name
    for base, quote in _bases(loader):
        threads = (name for name in _OF_THREADS if not _is_read(project, name))
        for name in (*_NAMES, *threads):
            if (found := _held(project, loader, base, name, quote)) is not None:
                return found
    if (variable := _variable(project, loader)) is not None:
        return variable
    others = {
        found
        for base, quote in _sections(loader)
        for name in _NAMES
        if (found := _held(project, loader, base, name, quote)) is not None
        and _serves_loaders(loader.module, base, name, _NAMES)
    }
    return others.pop() if len(others) == 1 else None


def _variable(project: Project, loader: Loader) -> str | None:
    """``workers``, where that is a parameter of the loader's function that is never 0, or a constant of its module
    that nothing but loaders get."""
    scope = loader.module.scope(loader.node)
    for name in (*_NAMES, *(name.upper() for name in _NAMES)):
        match scope.lookup(name):
            case [Binding(kind=BindingKind.PARAMETER, scope=Scope(node=ast.FunctionDef() as function))]:
                values = _passed_values(project, loader.module, function, name)
            case [Binding(kind=BindingKind.ASSIGN, path=(), value=ast.Constant(value=value), node=node) as one]:
                uses = [loader.module.syntax.parents.get(use) for use in loader.module.uses.get(name, ())]
                is_own = one.scope.parent is None and getattr(node, "lineno", 0) < loader.node.lineno
                served = all(isinstance(up, ast.keyword) and up.arg in _NAMES for up in uses)
                values = [value] if is_own and served else []
            case _:
                continue
        if values and all(isinstance(one, int) and not isinstance(one, bool) and one > 0 for one in values):
            return name
    return None


def _passed_values(project: Project, module: ModuleIndex, function: ast.FunctionDef, name: str) -> list[object]:
    """The values that a parameter gets, by default or from calls; None among them for one that is unknown."""
    default = next((value for arg, value in with_defaults(function.args) if arg.arg == name), None)
    found: list[object] = [default.value if isinstance(default, ast.Constant) else None] if default is not None else []
    for site in project.fact(Resolver).call_sites(module, function):
        passed = argument_of(function, site.node, name) if isinstance(site.node, ast.Call) else None
        if passed is None and default is not None:
            continue
        known = project.fact(Constants).of(site.module, passed) if passed is not None else None
        found += [value.value for value in known.values] if known is not None and known.complete else [None]
    return found


def pinning_option(project: Project, loader: Loader) -> str | None:
    """``args.pin_mem``, if the program has such an option or setting where the loader is made, which says that memory
    is pinned and which its module reads for nothing else."""
    for base, quote in (*_bases(loader), *_sections(loader)):
        for name in _PINNING:
            known = _values(project, loader, base, name, quote)
            if known and all(value is True for value in known) and _serves_loaders(loader.module, base, name, _PINNING):
                return _spelt(loader, base, name, quote)
    return None


def _sections(loader: Loader) -> list[tuple[ast.expr, str]]:
    """Return what else is read of settings and options that are there above a loader: ``cfg.data`` beside
    ``cfg.optim``, and ``args``."""
    module, bases = loader.module, {ast.unparse(base) for base, _ in _bases(loader)}
    known = _objects(module)
    found = {**known.get(None, {}), **known.get(module.function(loader.node), {})}
    return [one for text, one in found.items() if text not in bases and _is_above(loader, one[0])]


@query
def _objects(module: ModuleIndex) -> dict[FunctionNode | None, dict[str, tuple[ast.expr, str]]]:
    """Return of what each function reads attributes or entries first, with the quotes around the key of an entry."""
    found: dict[FunctionNode | None, dict[str, tuple[ast.expr, str]]] = {}
    for part in walk(module.syntax.tree):
        match part:
            case ast.Attribute(value=ast.Name() | ast.Attribute(value=ast.Name()) as base, ctx=ast.Load()):
                quote = ""
            case ast.Subscript(
                value=ast.Name() | ast.Subscript(value=ast.Name()) as base, slice=ast.Constant(value=str()) as key
            ):
                quote = module.syntax.text(key)[:1]
            case _:
                continue
        if not _is_method(module, part):
            found.setdefault(module.function(part), {}).setdefault(ast.unparse(base), (base, quote))
    return found


def _is_above(loader: Loader, base: ast.expr) -> bool:
    """Return whether a variable is set above a loader, and means the same there."""
    root = base if isinstance(base, ast.Name) else getattr(base, "value", base)
    if not isinstance(root, ast.Name) or root.id in RECEIVERS:
        return False
    bound = loader.module.scope(loader.node).lookup(root.id)
    return (
        bool(bound)
        and bound == loader.module.scope(root).lookup(root.id)
        and all(getattr(one.node, "lineno", 0) < loader.node.lineno and one.target == "" for one in bound)
    )


def _serves_loaders(module: ModuleIndex, base: ast.expr, name: str, names: tuple[str, ...]) -> bool:
    """Return whether a module reads an option only to pass it on to loaders, or not at all."""
    passed = _passed(module).get((ast.unparse(base), name), ())
    return all(isinstance(up, ast.keyword) and up.arg in names for up in passed)


@query
def _passed(module: ModuleIndex) -> dict[tuple[str, str], list[ast.AST | None]]:
    """Return what holds each read of an option for loaders in a module, by its object and its name."""
    found: dict[tuple[str, str], list[ast.AST | None]] = {}
    for part in module.syntax.of(ast.Attribute):
        if part.attr in _NAMES or part.attr in _PINNING:
            found.setdefault((ast.unparse(part.value), part.attr), []).append(module.syntax.parents.get(part))
    return found


def _is_read(project: Project, name: str) -> bool:
    """Return whether a module reads an attribute or an entry of that name."""
    between = r"(?:[\s\\]|#[^\r\n]{0,200}[\r\n]){0,50}"
    reads = re.compile(rf"\.{between}{name}\b|\[{between}[\"']{name}[\"']{between}\]")
    return any(project.matches(path, reads) for path in project.python_files_with(name.encode()))


def restored(project: Project, loader: Loader, lasting: bool) -> tuple[Edit, ...] | None:
    """The line of a call that is commented out and passes a setting as ``num_workers``, as it was; None if there is
    none. ``lasting`` lets the workers stay alive."""
    syntax = loader.module.syntax
    start, end = syntax.offsets(loader.node)
    if syntax.span(loader.node).cell is not None:
        return None
    source, text = syntax.source, syntax.source.text
    first, last = source.position(start)[0], source.position(end)[0]
    for number in range(first + 1, last):
        line = source.line(number).rstrip("\r\n")
        comment = line.lstrip()
        at = source.offset(number, 1) + len(line) - len(comment)
        given = _arguments(comment)
        own = {keyword.arg for keyword in loader.node.keywords}
        if "num_workers" not in given or own & {*given} or not text[start:at].rstrip().endswith(","):
            continue
        workers = given["num_workers"]
        if not _value_of(project, loader, workers, is_number=True):
            continue
        if "pin_memory" in given and not _value_of(project, loader, given["pin_memory"], is_number=False):
            continue
        more = f", persistent_workers={workers} > 0" if lasting else ""
        more += "," if any(syntax.offsets(argument)[0] > at for argument in own_arguments(loader)) else ""
        code, behind = at + len(comment) - len(comment.lstrip("# ")), at + len(comment.rstrip(", "))
        return (
            Edit(syntax.path, syntax.span_at(at, code), ""),
            Edit(syntax.path, syntax.span_at(behind, at + len(comment)), more),
        )
    return None


def _value_of(project: Project, loader: Loader, text: str, *, is_number: bool) -> bool:
    """Return whether ``cfg.num_workers`` is certainly a number of workers, or is known or read at all."""
    if text in ("True", "False"):
        return not is_number
    of, _, name = text.rpartition(".")
    base = next((one for one, quote in _bases(loader) if ast.unparse(one) == of and not quote), None)
    if base is None:
        return False
    if is_number:
        return _held(project, loader, base, name) is not None
    reads = (part for part in loader.module.syntax.of(ast.Attribute) if part.attr == name)
    return bool(_values(project, loader, base, name)) or any(ast.unparse(part) == text for part in reads)


def own_arguments(loader: Loader) -> list[ast.expr]:
    """The values of a call's arguments."""
    return [*loader.node.args, *(keyword.value for keyword in loader.node.keywords)]


def _arguments(comment: str) -> dict[str, str]:
    """The arguments that a comment names: ``# pin_memory=cfg.pin, num_workers=cfg.workers``."""
    if not comment.startswith("#") or "=" not in comment:
        return {}
    try:
        call = ast.parse(f"f({comment.lstrip('# ').rstrip(', ')})", mode="eval").body
    except (SyntaxError, ValueError):
        return {}
    if not isinstance(call, ast.Call) or call.args or any(one.arg not in _RESTORED for one in call.keywords):
        return {}
    return {str(one.arg): ast.unparse(one.value) for one in call.keywords}


def _bases(loader: Loader) -> list[tuple[ast.expr, str]]:
    """The objects of which arguments of the call are attributes or entries (``cfg.data`` of ``cfg.data.batch_size``),
    with the quotes around the key of an entry."""
    found = dict[str, tuple[ast.expr, str]]()
    for value in own_arguments(loader):
        for part in walk(value):
            match part:
                case ast.Attribute(value=base, ctx=ast.Load()) if not _is_method(loader.module, part):
                    found.setdefault(ast.unparse(base), (base, ""))
                case ast.Subscript(value=base, slice=ast.Constant(value=str()) as key):
                    found.setdefault(ast.unparse(base), (base, loader.module.syntax.text(key)[:1]))
    function = loader.module.function(loader.node)
    early = {"self"} if getattr(function, "name", "") == "__init__" else frozenset[str]()  # it may not be set yet
    chains = (ast.Name, ast.Attribute, ast.Subscript)
    return [one for text, one in found.items() if text not in early and isinstance(one[0], chains)]


def _is_method(module: ModuleIndex, part: ast.AST) -> bool:
    call = module.syntax.parents.get(part)
    return isinstance(call, ast.Call) and call.func is part


def _held(project: Project, loader: Loader, base: ast.expr, name: str, quote: str = "") -> str | None:
    """An attribute or entry that certainly holds a number of workers."""
    found = _values(project, loader, base, name, quote)
    if found and all(isinstance(value, int) and not isinstance(value, bool) and value > 0 for value in found):
        return _spelt(loader, base, name, quote)
    return None


def _spelt(loader: Loader, base: ast.expr, name: str, quote: str) -> str:
    text = loader.module.syntax.text(base)
    return f"{text}[{quote}{name}{quote}]" if quote else f"{text}.{name}"


def _values(project: Project, loader: Loader, base: ast.expr, name: str, quote: str = "") -> list[object]:
    """The values of an option or a setting, as far as they are known."""
    module, constants = loader.module, project.fact(Constants)
    wanted = NodeRef(module, entry_of(module, base, name) if quote else attribute_of(module, base, name))
    if not constants.configs.always_has(wanted):
        return []
    if isinstance(base, ast.Name) and not quote and _parses_without(project, module, base, name):
        return []
    found = [value.value for value in constants.options.lookup(wanted)] if isinstance(base, ast.Name) else []
    found += _other_defaults(project, module, base, name) if found else []
    known = constants.of(module, wanted.node)
    if quote and not found and not known.complete:
        return []  # a key that may not be there
    return found or known.constants


def _parses_without(project: Project, module: ModuleIndex, base: ast.Name, name: str) -> bool:
    """Return whether a parser that may have made a namespace is set up in its own module alone, which declares no such
    option: the one of a module that it imports belongs to another program."""
    declared = project.fact(Constants).options.declarations(module, base, name)
    homes = [made.module for made in project.fact(Resolver).points_to(module, base) if isinstance(made.node, ast.Call)]
    return bool(declared) and any(
        all(option.module is not home for option in declared)
        and name not in declaring_calls(home)
        and _is_set_up_alone(home)
        for home in homes
    )


def _other_defaults(project: Project, module: ModuleIndex, base: ast.expr, name: str) -> list[object]:
    """The defaults of an option by the parsers of other programs that may have made a namespace."""
    options = project.fact(Constants).options
    seen = {option.module for option in options.declarations(module, base, name)}
    made = [ref.module for ref in project.fact(Resolver).points_to(module, base) if isinstance(ref.node, ast.Call)]
    others = [home for home in dict.fromkeys(made) if home not in seen]
    calls = [call for home in others for call in declaring_calls(home).get(name, ())]
    return [literal(option_of(call).given.get("default")) for call in calls]


@query
def _is_set_up_alone(module: ModuleIndex) -> bool:
    """Return whether a module makes a parser, and no function or other parser adds options to it."""
    made = module.calls_by_name.get("ArgumentParser", ())
    parsers = set[str]()
    for call in made:
        match module.syntax.parents.get(call):
            case ast.Assign(targets=[ast.Name(id=name)]) if all(one.arg != "parents" for one in call.keywords):
                parsers.add(name)
            case _:
                return False
    uses = (use for name in parsers for use in module.uses.get(name, ()))
    return bool(parsers) and all(isinstance(module.syntax.parents.get(use), ast.Attribute | ast.Assign) for use in uses)
