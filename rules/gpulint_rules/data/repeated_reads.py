"""Files that a data set opens or reads again for each sample: ``zipfile.ZipFile(self.path)`` in ``__getitem__``."""

from __future__ import annotations

import ast

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.impact import Cost
from gpulint.libraries.names import matches
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workload.library_handles import handles
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, last_name

_GETTERS = ("__getitem__", "__getitems__")
_KINDS = ("index", "whole", "arrays", "file")
"""Kinds of the tables of calls, what costs most first."""
_AROUND = (ast.If, ast.IfExp, ast.Try, ast.While, ast.For, ast.Lambda, ast.ListComp, *FUNCTIONS)
"""What a call that surely runs once for each sample is not in, below its method."""
_JOINS = frozenset({"join", "str", "Path", "abspath", "expanduser", "fspath"})
_READS = frozenset({"r", "rb", "r:", "r|"})
_STEPS = 4
"""How many variables lead from a path to what it is made of."""
_AGAIN = Cost("repeated-reading", per="step")
_OPENED = Cost("repeated-opening", per="step")
_OF_PART = Cost("partial-reading", per="step")
_WHOLE = "read it once in `__init__`, and take the sample from what is kept"
_ONCE = "open it once in each worker, when its first sample is drawn, and keep the handle (`if self.file is None: ...`)"


@dataclass(frozen=True, slots=True)
class RepeatedRead:
    """A call that opens or reads a file for each sample, what it does, what to do instead, and its cost."""

    call: ast.Call
    method: ast.FunctionDef
    does: str
    help: str
    cost: Cost
    takes_part: bool = False


@query
def repeated_reads(project: Project, module: ModuleIndex) -> tuple[RepeatedRead, ...]:
    """Return the calls in data sets of a module that open one file again for each sample, or read all of a file for a
    part of it."""
    methods = [one for one in module.functions if one.name in _GETTERS and isinstance(one, ast.FunctionDef)]
    return tuple(
        found
        for method in methods
        if module.class_of(method) is not None
        for part in walk(method)
        if isinstance(part, ast.Call) and part.args and (found := _of_call(project, module, method, part)) is not None
    )


def _of_call(project: Project, module: ModuleIndex, method: ast.FunctionDef, call: ast.Call) -> RepeatedRead | None:
    names = project.fact(Resolver).call_names(module, call)
    kind = next((one for one in _KINDS if matches(handles(project, one), names)), "") if names else ""
    if not kind or not _runs_each_time(module, method, call) or not _only_reads(call):
        return None
    path, name = call.args[0], ast.unparse(call.func)
    if not _is_fixed(module, method, path):
        if (
            "numpy.load" in names
            and keyword_value(call, "allow_pickle") is None
            and _takes_slices(module, method, call)
        ):
            return RepeatedRead(
                call,
                method,
                "reads a whole file for every item, and takes a part of it",
                f'pass `mmap_mode="r"` to `{name}`, which then reads only the part that is taken',
                _OF_PART,
                takes_part=True,
            )
        return None
    text = ast.unparse(path)
    if kind == "whole":
        return RepeatedRead(call, method, f"reads `{text}` again for every item", _WHOLE, _AGAIN)
    if kind == "index":
        said = f"opens `{text}` and reads its index again for every item"
        return RepeatedRead(call, method, said, _ONCE, _AGAIN)
    return RepeatedRead(call, method, f"opens `{text}` again for every item", _ONCE, _OPENED)


def _runs_each_time(module: ModuleIndex, method: ast.FunctionDef, call: ast.Call) -> bool:
    """Return whether a call in a method runs for each sample, and nothing of the object keeps its result."""
    for up in module.syntax.ancestors(call):
        if up is method:
            return True
        if isinstance(up, _AROUND):
            return False
        if isinstance(up, ast.Assign) and not all(isinstance(one, ast.Name | ast.Tuple) for one in up.targets):
            return False  # ``self.file = h5py.File(self.path)``
    return False


def _only_reads(call: ast.Call) -> bool:
    """Return whether a file is opened for reading, and not mapped into memory."""
    mode = keyword_value(call, "mode") or (call.args[1] if len(call.args) > 1 else None)
    if isinstance(mode, ast.Constant) and isinstance(mode.value, str) and mode.value.partition(":")[0] not in _READS:
        return False
    return all(keyword_value(call, name) is None for name in ("mmap_mode", "mmap", "driver", "chunksize", "iterator"))


def _is_fixed(module: ModuleIndex, method: ast.FunctionDef, node: ast.expr, steps: int = _STEPS) -> bool:
    """Return whether an expression has one value for all samples: it is made of constants and of attributes that only
    the constructor sets."""
    match node:
        case ast.Constant():
            return isinstance(node.value, str)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return _is_set_once(module, method, name)
        case ast.JoinedStr(values=parts):
            inner = [part.value for part in parts if isinstance(part, ast.FormattedValue)]
            return bool(inner) and all(_is_fixed(module, method, part, steps) for part in inner)
        case ast.BinOp(left=left, op=ast.Add() | ast.Div(), right=right):
            return _is_fixed(module, method, left, steps) and _is_fixed(module, method, right, steps)
        case ast.Call(func=func, args=args) if last_name(func) in _JOINS and args:
            return all(_is_fixed(module, method, part, steps) for part in args)
        case ast.Call(func=ast.Name(id="open"), args=[path, *_]):
            return _is_fixed(module, method, path, steps)
        case ast.Name() if steps > 0:
            return _is_fixed_name(module, method, node, steps - 1)
    return False


def _is_fixed_name(module: ModuleIndex, method: ast.FunctionDef, name: ast.Name, steps: int) -> bool:
    bindings = reaching(module, module.scope(name).lookup(name.id), name)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN or bindings[0].value is None:
        return False
    value = bindings[0].value
    match value, bindings[0].path:
        case _, ():
            return _is_fixed(module, method, value, steps)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"))), (int() as place,):
            assigned = bindings[0].node
            target = assigned.targets[0] if isinstance(assigned, ast.Assign) else None
            return isinstance(target, ast.Tuple) and _is_fixed_entry(module, method, len(target.elts), place)
    return False


def _is_fixed_entry(module: ModuleIndex, method: ast.FunctionDef, size: int, place: int) -> bool:
    """Return whether the rows that a sample is unpacked from all hold one attribute of the data set at a place:
    ``(self.path, name, 0)``."""
    owner = module.class_of(method)
    rows = [part for part in walk(owner) if isinstance(part, ast.Tuple)] if owner is not None else []
    made = [
        row.elts[place]
        for row in rows
        if len(row.elts) == size and isinstance(row.ctx, ast.Load) and module.function(row) is not method
    ]
    return bool(made) and all(
        isinstance(one, ast.Attribute) and _is_fixed(module, method, one) and ast.unparse(one) == ast.unparse(made[0])
        for one in made
    )


def _is_set_once(module: ModuleIndex, method: ast.FunctionDef, name: str) -> bool:
    owner = module.class_of(method)
    bindings = module.attributes.get((owner, name), ()) if owner is not None else ()
    homes = [module.function(one.node) for one in bindings]
    return bool(homes) and all(isinstance(home, FUNCTIONS) and home.name == "__init__" for home in homes)


def _takes_slices(module: ModuleIndex, method: ast.FunctionDef, call: ast.Call) -> bool:
    """Return whether only slices are taken of what a call reads (``rows[start : start + 12]``)."""
    assigned = module.syntax.parents.get(call)
    if isinstance(assigned, ast.Subscript):
        return _is_part(assigned)
    if not isinstance(assigned, ast.Assign) or not isinstance(name := assigned.targets[0], ast.Name):
        return False
    uses = [one for one in walk(method) if isinstance(one, ast.Name) and one.id == name.id and one is not name]
    parents = [module.syntax.parents.get(one) for one in uses]
    taken = [up for up in parents if not (isinstance(up, ast.Attribute) and up.attr in ("shape", "ndim"))]
    return bool(taken) and all(isinstance(up, ast.Subscript) and _is_part(up) for up in taken)


def _is_part(taken: ast.Subscript) -> bool:
    """Return whether an index is a slice between two bounds, of which one is not written out."""
    first = taken.slice.elts[0] if isinstance(taken.slice, ast.Tuple) and taken.slice.elts else taken.slice
    bounds = (first.lower, first.upper) if isinstance(first, ast.Slice) else (None, None)
    return (
        isinstance(taken.ctx, ast.Load)
        and isinstance(first, ast.Slice)
        and all(bound is not None for bound in bounds)
        and not isinstance(first.lower, ast.Constant)
    )
