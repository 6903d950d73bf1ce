"""Tests that the defaults of a program decide, and loops that have no round by default."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.launch.job_index import JobIndex
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.absent_keys import is_absent_key
from gpulint.training.parameter_tests import fails_for_calls, is_handed_on
from gpulint.values import option_classes
from gpulint.values.constants import Constants
from gpulint.values.option_calls import flags
from gpulint.workspace.module_index import FUNCTIONS, Binding, ModuleIndex, NodeRef, dotted

if TYPE_CHECKING:
    from gpulint.project import Project

_OF_JOBS = regex.compile(r"RANK|WORLD|SLURM|PBS|SGE|LSB|CUDA|GPU|MASTER|NODE|TPU|WANDB|^(SM|AML|KUBERNETES|RAY)_")
"""Variables that a launcher, a scheduler or a platform sets."""
_COMPARES: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
}
_READS_ENVIRONMENT = regex.compile(r"\benviron\b|\bgetenv\(")
_OFF = frozenset({"0", "0.0", "false", "no", "off", "n", "f"})
_KEEPS = frozenset({"lower", "upper", "strip"})
"""Methods of a text that say the same of it."""
_OF_SEVERAL = regex.compile(r"rank|world|gpu|node|proc|distributed|device|dp_|ddp|parallel", re.IGNORECASE)
"""Settings that whoever has several GPUs changes."""
_FILLS = ("append", "extend", "add", "update", "insert")


def fails_by_default(project: Project, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool:
    """Return whether all known values decide a comparison otherwise than ``wanted``: ``args.weight > 0`` with the
    default 0, ``monitoring > 1`` with the default 1, ``"xl" in args.model``, ``name.startswith("gpt")``, ``logger is
    not None``; or a variable of the environment that is seldom set decides it: ``os.environ.get("PROFILE")``,
    ``int(os.environ.get("PROFILE", 0))``, ``"PROFILE" in os.environ``."""
    constants = project.fact(Constants)
    if (found := _fails_for_environment(project, module, test, wanted)) is not None:
        return found
    if (wanted and is_absent_key(project, test)) or fails_for_calls(project, module, test, wanted):
        return True
    match test:
        case ast.Attribute():
            return _fails_for_default(project, module, test, wanted)
        case ast.Call(args=[ast.Constant(value=str()), *_]):
            return _fails_for_text(constants, module, test, wanted)
        case ast.Compare(
            left=ast.Name() as left, ops=[ast.Is() | ast.IsNot() as compares], comparators=[ast.Constant(value=None)]
        ):
            return wanted is isinstance(compares, ast.IsNot) and constants.of(module, left).every(
                lambda value: value is None
            )
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as compares], comparators=[ast.Constant(value="")]):
            return wanted is isinstance(compares, ast.NotEq) and constants.of(module, left).every(
                lambda value: value == ""
            )
        case ast.Compare(left=left, ops=[ordering], comparators=[ast.Constant(value=int() | float() as limit)]) if (
            order := _COMPARES.get(type(ordering))
        ) and not isinstance(ordering, ast.Eq):
            if limit and (_OF_SEVERAL.search(ast.unparse(left)) or _is_handed_on(module, left)):
                return False
            return constants.of(module, left).every(
                lambda value: isinstance(value, int | float) and order(value, limit) is not wanted
            )
        case ast.Compare(
            left=ast.Name() | ast.Attribute() as left,
            ops=[ast.Is() | ast.Eq() | ast.IsNot() | ast.NotEq() as compares],
            comparators=[ast.Attribute() as member],
        ):
            return wanted is isinstance(compares, ast.Is | ast.Eq) and _is_other_member(project, module, left, member)
        case ast.Compare(
            left=ast.Constant(value=str(part)), ops=[ast.In() | ast.NotIn() as compares], comparators=[text]
        ):
            inside = wanted is isinstance(compares, ast.In)
            known = constants.of(module, text)
            return known.every(lambda value: isinstance(value, str) and (part in value) is not inside)
    return False


def _fails_for_environment(project: Project, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool | None:
    """Return whether a variable of the environment decides a test otherwise; None if it asks for none."""
    match test:
        case ast.Call(func=ast.Name(id="bool" | "int" | "float" | "strtobool" as made), args=[asked]):
            if made == "bool" and isinstance(asked, ast.Call | ast.Compare) and _environment_default(asked) is None:
                return wanted and fails_by_default(project, module, asked, wanted)
            found = _environment_default(asked)
            return wanted and found is not None and _is_off(found[0], made)
        case ast.Compare(
            left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn() as compares], comparators=[text]
        ) if dotted(text) in ("os.environ", "environ"):
            return wanted is isinstance(compares, ast.In) and not _OF_JOBS.search(name)
        case ast.Call(args=[ast.Constant(value=str(name)), *default]):
            if _reads_environment(test) and not _OF_JOBS.search(name):
                return wanted and all(isinstance(one, ast.Constant) and not one.value for one in default)
        case ast.Compare(left=asked, ops=[compares], comparators=[given]):
            if (found := _environment_default(asked)) is not None:
                return _decides(found[0], compares, given) is (not wanted)
    return None


def _fails_for_default(project: Project, module: ModuleIndex, option: ast.Attribute, wanted: bool) -> bool:
    """Return whether the default of an option that no launcher passes tests a variable of the environment that is
    seldom set (``debug: bool = "DEBUG" in os.environ``)."""
    defaults = list[NodeRef]()
    for made in project.fact(Resolver).points_to(module, option):
        if isinstance(made.node, ast.Attribute):
            defaults += _unpassed_defaults(project, made.module, made.node) or [made]
        else:
            defaults.append(made)
    return bool(defaults) and all(
        isinstance(one.node, ast.Call | ast.Compare)
        and _fails_for_environment(project, one.module, one.node, wanted) is True
        for one in defaults
    )


def _unpassed_defaults(project: Project, module: ModuleIndex, option: ast.Attribute) -> list[NodeRef]:
    """Return the expressions that are the defaults of the option in an attribute of a namespace; [] if launchers pass
    it, or one has no default."""
    declared = project.fact(Constants).options.declarations(module, option.value, option.attr)
    if not declared:
        fields = list(option_classes.fields(project, module, option.value, option.attr))
        return [] if any(any(option_classes.passed(project, one, option.attr)) for one in fields) else fields
    found = list[NodeRef]()
    for one in declared:
        call = one.node
        default = keyword_value(call, "default") if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or default is None or not (words := flags(call)):
            return []
        if any(start.option(words) for start in project.fact(JobIndex).launches_of(one.module.path)):
            return []
        found.append(NodeRef(one.module, default))
    return found


def _is_other_member(project: Project, module: ModuleIndex, asked: ast.expr, member: ast.Attribute) -> bool:
    """Return whether all that a setting may be are other members of an enumeration (``Mode.FAST``)."""
    resolver = project.fact(Resolver)
    kinds = {one.node for one in resolver.points_to(module, member.value) if isinstance(one.node, ast.ClassDef)}
    members = {one.value for kind in kinds for one in kind.body if isinstance(one, ast.Assign)}
    known = [one.node for one in resolver.points_to(module, asked)] if members else []
    named = {one.node for one in resolver.points_to(module, member)}
    return bool(known and named) and all(one in members and one not in named for one in known)


def fails_for_number(project: Project, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool:
    """Return whether all known values of a setting, which somebody may change, decide a comparison with a number
    otherwise than ``wanted``: ``args.log_level >= 2`` with the default 1."""
    match test:
        case ast.Compare(
            left=ast.Name() | ast.Attribute() | ast.Subscript() as left,
            ops=[compares],
            comparators=[ast.Constant(value=int() | float() as limit)],
        ) if type(compares) in _COMPARES:
            known = project.fact(Constants).of(module, left)
            holds = _COMPARES[type(compares)]
            return all(value.source != "literal" for value in known.values) and known.every(
                lambda value: isinstance(value, int | float) and holds(value, limit) is not wanted
            )
    return False


def decides_number(test: ast.Compare, value: object) -> bool | None:
    """Return how a comparison with a number turns out for a value on its left; None if that is unknown."""
    match test.ops, test.comparators:
        case [compares], [ast.Constant(value=int() | float() as limit)] if type(compares) in _COMPARES:
            return _COMPARES[type(compares)](value, limit) if isinstance(value, int | float) else None
    return None


def ways_to_be_set(module: ModuleIndex, part: ast.expr, wanted: bool) -> list[list[tuple[ast.expr, bool]]]:
    """Return what must hold for each statement that gives a name a value, where a test asks for one (``if stats is not
    None``, ``if stats``); [] if nothing is asked for, or nothing need hold."""
    match part:
        case ast.Compare(
            left=ast.Name() | ast.Attribute() as name, ops=[compares], comparators=[ast.Constant(value=None)]
        ):
            if wanted is not isinstance(compares, ast.IsNot | ast.NotEq):
                return []
        case ast.Name() | ast.Attribute() as name if wanted:
            pass
        case _:
            return []
    asks = isinstance(part, ast.Compare)
    ways = [
        [*_parts_of_choice(one.value, asks), *_parts_around(module, one.node)]
        for one in _bindings(module, name)
        if not (isinstance(one.value, ast.Constant) and not one.value.value)
    ]
    return ways if all(ways) else []


@query
def is_by_choice(module: ModuleIndex, test: ast.expr) -> bool:
    """Return whether a test asks for what is only there if a setting is one of several names: ``self.contrast is not
    None`` after ``self.contrast = Contrast() if loss_type == "contrast" else None``."""
    ways = ways_to_be_set(module, test, True)
    return bool(ways) and all(any(_names_choice(*part) for part in way) for way in ways)


def _names_choice(part: ast.expr, wanted: bool) -> bool:
    match part:
        case ast.Compare(ops=[ast.Eq() | ast.In() as compares], comparators=[named]) if wanted:
            names = named.elts if isinstance(named, ast.List | ast.Tuple | ast.Set) else [named]
            is_list = isinstance(compares, ast.In) is isinstance(named, ast.List | ast.Tuple | ast.Set)
            return is_list and all(isinstance(name, ast.Constant) and isinstance(name.value, str) for name in names)
    return False


def _bindings(module: ModuleIndex, name: ast.Name | ast.Attribute) -> Sequence[Binding]:
    if isinstance(name, ast.Name):
        return module.scope(name).lookup(name.id)
    owner = module.class_of(name) if isinstance(name.value, ast.Name) and name.value.id == "self" else None
    return module.attributes.get((owner, name.attr), []) if owner is not None else []


def _parts_of_choice(value: ast.expr | None, is_any: bool) -> list[tuple[ast.expr, bool]]:
    """Return what must hold for ``open(path) if path else None`` to be something, or for ``os.getenv("CHECK") == "1"``
    to be true."""
    match value:
        case ast.Compare() | ast.BoolOp() if not is_any and _READS_ENVIRONMENT.search(ast.unparse(value)):
            return [*parts_of(value, True)]
        case ast.IfExp(test=test, orelse=ast.Constant(value=None | False)):
            return [*parts_of(test, True)]
    return []


def _parts_around(module: ModuleIndex, node: ast.AST) -> list[tuple[ast.expr, bool]]:
    return [part for test, holds in conditions(module, node) for part in parts_of(test, holds)]


def _environment_default(asked: ast.expr) -> tuple[object] | None:
    """``"0"`` of ``os.environ.get("TRACE", "0").lower()``, as the only part of a tuple."""
    while isinstance(asked, ast.Call):
        if isinstance(asked.func, ast.Attribute) and asked.func.attr in _KEEPS:
            asked = asked.func.value
        elif isinstance(asked.func, ast.Name) and asked.func.id == "str" and len(asked.args) == 1:
            asked = asked.args[0]
        else:
            break
    match asked:
        case ast.Call(args=[ast.Constant(value=str(name)), *default]) if _reads_environment(asked):
            if _OF_JOBS.search(name) or not all(isinstance(one, ast.Constant) for one in default):
                return None
            return (default[0].value if default and isinstance(default[0], ast.Constant) else None,)
    return None


def _is_off(value: object, made: str) -> bool:
    """Return whether a variable that has this value unless somebody sets it is false as a number or a truth value."""
    if made == "bool" or value is None:
        return not value  # ``bool("0")`` is true
    return str(value).strip().lower() in _OFF


def _decides(value: object, compares: ast.cmpop, given: ast.expr) -> bool | None:
    """Return how a value compares with a text, or one of several; None if that is unknown."""
    match given:
        case ast.Constant(value=str(text)) if isinstance(compares, ast.Eq | ast.NotEq):
            return (value == text) is isinstance(compares, ast.Eq)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) if isinstance(
            compares, ast.In | ast.NotIn
        ):
            texts = [part.value for part in parts if isinstance(part, ast.Constant)]
            return (value in texts) is isinstance(compares, ast.In) if len(texts) == len(parts) else None
    return None


def _is_handed_on(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is a parameter of a function that others call: ``mp.spawn(run, args=(count,))``."""
    function = module.function(node)
    if not isinstance(node, ast.Name) or not isinstance(function, ast.FunctionDef):
        return False
    parameters = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return any(one.arg == node.id for one in parameters) and is_handed_on(module, function)


def _reads_environment(call: ast.Call) -> bool:
    """``os.environ.get("PROFILE")``, ``os.getenv("PROFILE", "")``"""
    return dotted(call.func).removeprefix("os.") in ("environ.get", "getenv")


def _fails_for_text(constants: Constants, module: ModuleIndex, test: ast.Call, wanted: bool) -> bool:
    match test:
        case ast.Call(
            func=ast.Attribute(value=text, attr="startswith" | "endswith" as method),
            args=[ast.Constant(value=str(part))],
        ):
            known = constants.of(module, text)
            return known.every(lambda value: isinstance(value, str) and getattr(value, method)(part) is not wanted)
    return False


def runs_over_nothing(project: Project, module: ModuleIndex, node: ast.AST, until: ast.AST | None = None) -> bool:
    """Return whether a loop between ``node`` and ``until`` goes through a setting that is an empty list
    (``for task in config["tasks"]``)."""
    for up in module.syntax.ancestors(node):
        if up is until or isinstance(up, FUNCTIONS):
            return False
        if isinstance(up, ast.For) and _is_empty_setting(project, module, up.iter):
            return True
    return False


def _is_empty_setting(project: Project, module: ModuleIndex, source: ast.expr) -> bool:
    match source:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            origins = project.fact(Resolver).points_to(module, source)
        case _:
            return False
    filled = (call.func for name in _FILLS for call in module.calls_by_name.get(name, ()))
    return all(_is_empty(ref.node) for ref in origins) and not any(
        isinstance(func, ast.Attribute) and key in ast.unparse(func.value) for func in filled
    )


def _is_empty(node: ast.AST) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and not node.elts
