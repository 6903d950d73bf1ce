"""What a call hands to the parameters of the function that it reaches."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable

from gpulint.documents.call_syntax import with_defaults
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, last_name

RECEIVERS = ("self", "cls")
"""Names of a method's first parameter, which stands for the object or its class."""

_VALIDATE = frozenset({"model_validate", "parse_obj"})
"""Class methods of pydantic that make an object of a dictionary."""


class CallbackCall(ast.Call):
    """The call that ``spawn(f, args=(a, b))`` or ``run(step=f)`` makes of ``f``.

    ``shifted`` when the caller puts an argument of its own (the rank) before ``args``.
    """

    shifted = False


class UnpackedArgument(ast.Starred):
    """``**options`` of a call, where it may pass any argument; equal for each argument and each time it is asked."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnpackedArgument) and other.value is self.value

    def __hash__(self) -> int:
        return hash(self.value)


def callback_call(
    module: ModuleIndex,
    call: ast.Call,
    func: ast.expr,
    args: list[ast.expr],
    named: dict[str, ast.expr],
    shifted: bool,
) -> CallbackCall:
    """The call that ``call`` makes of ``func`` with these arguments, in its place; the same node each time."""
    question = call, func, tuple(args), tuple(named.items()), shifted
    if question not in module.handed_calls:
        keywords = [ast.keyword(arg=name, value=value) for name, value in named.items()]
        made = CallbackCall(func=func, args=args, keywords=keywords)
        made.shifted = shifted
        module.syntax.parents[made] = module.syntax.parents[call]
        module.handed_calls[question] = ast.copy_location(made, call)
    return module.handed_calls[question]


def parameters(function: FunctionNode) -> set[str]:
    """Names of all parameters but ``*args`` and ``**kwargs``."""
    own = function.args
    return {arg.arg for arg in (*own.posonlyargs, *own.args, *own.kwonlyargs)}


def argument_of(function: FunctionNode, call: ast.Call, name: str) -> ast.expr | None:
    """Return what ``call`` passes for parameter ``name``; None if it leaves it to the default, Starred if it can't be
    told."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    filled = positional(function, call)
    for parameter, argument in zip(filled, call.args, strict=False) if name in filled else ():
        if parameter == name or isinstance(argument, ast.Starred):
            return argument
    unpacked = next((keyword.value for keyword in call.keywords if keyword.arg is None), None)
    return UnpackedArgument(value=unpacked, ctx=ast.Load()) if unpacked is not None else None


def given_by_name(module: ModuleIndex, call: ast.Call, name: str) -> tuple[list[ast.expr], bool]:
    """Return what ``Namespace(lr=1, **vars(args))`` or ``Config.model_validate(data)`` may get for a keyword, and
    whether it certainly gets that."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return [keyword.value], True
    unpacked = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if isinstance(call.func, ast.Attribute) and call.func.attr in _VALIDATE:
        unpacked += call.args[:1]
    found = [under_name(module, UnpackedArgument(value=value, ctx=ast.Load()), name) for value in unpacked]
    given = [one for one in found if one is not None]
    return given, any(one not in module.unpacked_items for one in given)


def positional(function: FunctionNode, call: ast.Call) -> list[str]:
    """The parameters that positional arguments of ``call`` fill, in order."""
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names and _leaves_out_first(names[0], call) else names


def _leaves_out_first(first: str, call: ast.Call) -> bool:
    """Return whether the call leaves out the first parameter (``obj.method(...)``, ``Class(...)``)."""
    if isinstance(call, CallbackCall) and call.shifted:
        return True
    func = call.func
    by_class = isinstance(func, ast.Attribute) and func.attr == "__init__" and not isinstance(func.value, ast.Call)
    return first in RECEIVERS and not by_class


def under_name(module: ModuleIndex, argument: ast.Starred, name: str) -> ast.expr | None:
    """Return what ``f(**vars(args))``, ``f(**locals())`` or ``f(**config["loader"])`` passes for parameter ``name``."""
    if not isinstance(argument, UnpackedArgument):
        return None  # ``*args``, which fills parameters by position
    match argument.value:
        case ast.Dict(keys=keys, values=values) if all(keys):
            items = zip(keys, values, strict=True)
            return next((value for key, value in items if isinstance(key, ast.Constant) and key.value == name), None)
        case ast.Call(func=ast.Name(id="vars"), args=[held]) | ast.Attribute(value=held, attr="__dict__"):
            return attribute_of(module, held, name)
        case ast.Call(func=ast.Name(id="locals"), args=[]):
            return _made(module, argument.value, (name, "local"), ast.Name(id=name, ctx=ast.Load()))
    return item_of(module, argument.value, name)


def item_of(module: ModuleIndex, base: ast.expr, key: str) -> ast.expr:
    """``config["loader"]["batch_size"]`` for what ``**config["loader"]`` passes under a name; the same node each
    time."""
    name = ast.copy_location(ast.Constant(key), base)
    made = _made(module, base, (key, "item"), ast.Subscript(value=base, slice=name, ctx=ast.Load()))
    module.unpacked_items.add(made)
    return made


def entry_of(module: ModuleIndex, base: ast.expr, key: str) -> ast.expr:
    """``config["num_workers"]`` beside what a program reads of ``config``; the same node each time."""
    name = ast.copy_location(ast.Constant(key), base)
    return _made(module, base, (key, "entry"), ast.Subscript(value=base, slice=name, ctx=ast.Load()))


def attribute_of(module: ModuleIndex, base: ast.expr, name: str) -> ast.expr:
    """``cfg.loader.batch_size`` for what ``**cfg.loader`` passes under a name; the same node each time."""
    return _made(module, base, (name, "attribute"), ast.Attribute(value=base, attr=name, ctx=ast.Load()))


def _made(module: ModuleIndex, base: ast.expr, question: tuple[str, str], made: ast.expr) -> ast.expr:
    """The first expression that was made for a question, in the place of ``base``."""
    if (base, question) not in module.unpacked:
        module.syntax.parents[made] = module.syntax.parents[base]
        module.unpacked[base, question] = ast.copy_location(made, base)
    return module.unpacked[base, question]


def accepts(function: ast.AST, call: ast.Call) -> bool:
    """Return whether a function has parameters for the arguments of a call. A decorator may change what it takes."""
    if not isinstance(function, FUNCTIONS) or function.decorator_list or isinstance(call, CallbackCall):
        return True
    own = function.args
    named = {arg.arg for arg in (*own.args, *own.kwonlyargs)}
    if own.kwarg is None and any(keyword.arg is not None and keyword.arg not in named for keyword in call.keywords):
        return False
    unpacked = own.vararg is not None or any(isinstance(value, ast.Starred) for value in call.args)
    return unpacked or len(call.args) <= len(own.posonlyargs) + len(own.args)  # with `self`, which may be written out


def binds(function: ast.AST, call: ast.Call) -> bool:
    """Return whether a call passes all that a function needs, and nothing that it does not take."""
    return accepts(function, call) and not _lacks(function, call)


def fitting(functions: Iterable[NodeRef], call: ast.Call, partial: Container[NodeRef]) -> list[NodeRef]:
    """Return the functions that take the arguments of a call, and need no more of them unless they are ``partial`` ones
    or all do."""
    taking = [one for one in functions if accepts(one.node, call)]
    return [one for one in taking if one in partial or not _lacks(one.node, call)] or taking


def _lacks(function: ast.AST, call: ast.Call) -> bool:
    """Return whether a call leaves out an argument that a function needs. A decorator may change what it takes."""
    if not isinstance(function, FUNCTIONS) or function.decorator_list or isinstance(call, CallbackCall):
        return False
    named = {keyword.arg for keyword in call.keywords}
    if None in named or any(isinstance(value, ast.Starred) for value in call.args):
        return False
    own = function.args
    left = {*positional(function, call)[len(call.args) :], *(one.arg for one in own.kwonlyargs)}
    return any(one.arg in left - named for one, default in with_defaults(own) if default is None)


def is_filled_by_option(function: FunctionNode, name: str) -> bool:
    """Return whether a decorator (``@click.option("--rate")``) passes a parameter in all calls without arguments, so
    that its default in the signature does not count."""
    return any(
        isinstance(word, ast.Constant) and isinstance(word.value, str) and _parameter_of(word.value) == name
        for call in function.decorator_list
        if isinstance(call, ast.Call) and last_name(call.func) == "option"
        for word in call.args
    )


def _parameter_of(word: str) -> str:
    return word.split("/")[0].lstrip("-").replace("-", "_")
