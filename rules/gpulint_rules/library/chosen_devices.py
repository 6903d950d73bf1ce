"""What else than the default of an option decides on which device a program computes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.programs.multi_gpu_use import Program
from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

_CUDA = regex.compile(r"cuda(:\d+)?")
_PLACES = frozenset({"to", "device", "to_device", "set_device", "set_default_device"})
_SAME = frozenset({"device", "str", "lower", "strip"})
"""Calls that leave the choice as it is: ``torch.device(args.device)``."""
_NAMED = frozenset({"device", "dev", "device_type", "accelerator", "cuda", "gpu", "use_cuda", "use_gpu", "on_gpu"})
"""Arguments that may take the device of a model."""
_ABOUT_DEVICES = regex.compile(r"cuda|gpu|cpu|dev(ice)?\b", re.IGNORECASE)
_VARIABLES = frozenset({"environ", "getenv"})
_PLACE_THEMSELVES = frozenset(
    """Accelerator TrainingArguments Seq2SeqTrainingArguments SFTConfig DPOConfig GRPOConfig PPOConfig RewardConfig
    ORPOConfig KTOConfig""".split()
)
"""Classes of accelerate, transformers and TRL whose trainers take the GPUs unless they are told otherwise."""
_PARSERS = ("ArgumentParser", "ArgParser", "Namespace", "SimpleNamespace")
_OF_PROCESSES = frozenset({"target", "initializer", "worker_init_fn"})
_HAND_OVER = frozenset({"Process", "spawn", "submit", "apply_async", "starmap", "imap", "imap_unordered"})

_TRAINER_WORDS = frozenset(map(word_of, _PLACE_THEMSELVES))


def is_set_again(module: ModuleIndex, option: str) -> bool:
    """Return whether a program gives an option another value than its parser: it assigns to it, or puts what it has
    read into all options (``setattr(args, key, value)``, ``args = merged(args, config)``)."""
    if any(call.args and last_name(call.args[0]) != "self" for call in module.calls_by_name.get("setattr", ())):
        return True
    if any(_is_filled(call) for name in _PARSERS for call in module.calls_by_name.get(name, ())):
        return True
    if "set_defaults" in module.calls_by_name or any(map(_fills_all, module.calls_by_name.get("update", ()))):
        return True
    parsed = {
        target.id
        for statement in module.syntax.of(ast.Assign)
        if isinstance(statement.value, ast.Call) and last_name(statement.value.func).startswith("parse_")
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    return any(
        _replaces(target, statement.value, parsed) or _sets(target, statement.value, option)
        for statement in module.syntax.of(ast.Assign)
        for target in statement.targets
    )


def _is_filled(call: ast.Call) -> bool:
    """A parser that reads files as well, or options made of those that were parsed and others:
    ``Namespace(**{**vars(args), **settings})``"""
    return any(
        keyword.arg in ("default_config_files", "config_file_parser_class")
        or (keyword.arg is None and isinstance(keyword.value, ast.Dict | ast.BinOp))
        for keyword in call.keywords
    )


def _fills_all(call: ast.Call) -> bool:
    """``vars(args).update(config)``, ``args.__dict__.update(config)``"""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return (isinstance(owner, ast.Call) and last_name(owner.func) == "vars") or (
        isinstance(owner, ast.Attribute) and owner.attr == "__dict__"
    )


def _replaces(target: ast.expr, value: ast.expr, parsed: set[str]) -> bool:
    return (
        isinstance(target, ast.Name)
        and target.id in parsed
        and any(isinstance(part, ast.Name) and part.id == target.id for part in walk(value))
    )


def _sets(target: ast.expr, value: ast.expr, option: str) -> bool:
    """``args.device = picked(args.device)``"""
    if not isinstance(target, ast.Attribute) or target.attr != option or last_name(target.value) == "self":
        return False
    text = ast.unparse(target)
    while isinstance(value, ast.Call) and last_name(value.func) in _SAME:
        value = value.args[0] if value.args else getattr(value.func, "value", value.func)
    return ast.unparse(value) != text


def decides_device(program: Program, option: str) -> bool:
    """Return whether an option may decide on which device a program trains: it reads the option other than as the
    default of a variable of the environment or for something else (``decode_on_gpu=args.gpu``), no module sets it
    again, and no library that places models itself trains it."""
    modules = [*program.modules_where(lambda project, path: project.word_index.holds(path, option.encode()))]
    if not any(_may_decide(module, read) for module in modules for read in _reads(module, option)):
        return False
    if any(_is_resolved(module, read) for module in modules for read in _reads(module, option)):
        return False
    if any(
        _sets(target, statement.value, option)
        for module in modules
        for statement in module.syntax.of(ast.Assign)
        for target in statement.targets
    ):
        return False
    return not any(
        all(option not in ast.unparse(call) for call in module.calls_by_name.get(name, ()))
        for module in program.modules_where(lambda project, path: project.word_index.holds_one(path, _TRAINER_WORDS))
        for name in _PLACE_THEMSELVES & module.calls_by_name.keys()
    )


def _is_resolved(module: ModuleIndex, read: ast.expr | ast.arg) -> bool:
    """``device = resolve_device(args.device)``, which may take what is there"""
    call = module.syntax.parents.get(read)
    if not isinstance(call, ast.Call) or call.func is read or last_name(call.func) in _PLACES | _SAME:
        return False
    return "device" in last_name(call.func).lower() and isinstance(module.syntax.parents.get(call), ast.Assign)


def _reads(module: ModuleIndex, option: str) -> Iterator[ast.expr | ast.arg]:
    """Yield ``args.device``, ``args["device"]`` and ``def main(device)``, which may be given ``**vars(args)``."""
    yield from (part for part in module.syntax.of(ast.Attribute) if part.attr == option)
    yield from (
        part
        for part in module.syntax.of(ast.Subscript)
        if isinstance(part.slice, ast.Constant) and part.slice.value == option
    )
    yield from (part for part in module.syntax.of(ast.arg) if part.arg == option)


def _may_decide(module: ModuleIndex, read: ast.expr | ast.arg) -> bool:
    match module.syntax.parents.get(read):
        case ast.keyword(arg=str(name)):
            return name in _NAMED or name == _name(read)
        case ast.Call(func=called, args=[_, default]) if default is read:
            return _VARIABLES.isdisjoint(part for part in ast.unparse(called).split("."))
    for up in module.syntax.ancestors(read):
        match up:
            case ast.IfExp(test=test, body=body, orelse=other) if read in walk(test):
                return _ABOUT_DEVICES.search(ast.unparse(body) + " " + ast.unparse(other)) is not None
            case ast.If(test=test, body=block, orelse=others) if read in walk(test):
                return any(_ABOUT_DEVICES.search(ast.unparse(part)) for part in (*block, *others))
            case ast.stmt():
                break
    return True


def _name(read: ast.expr | ast.arg) -> str:
    match read:
        case ast.Subscript(slice=ast.Constant(value=str(name))) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return name
    return ""


def is_for_another_process(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is in a function that is handed to another process or thread: ``Process(target=run)``."""
    function = module.function(node)
    if function is None:
        return False
    for use in module.uses.get(function.name, ()):
        match module.syntax.parents.get(use):
            case ast.keyword(arg=name) if name in _OF_PROCESSES:
                return True
            case ast.Call(func=called) if called is not use and last_name(called) in _HAND_OVER:
                return True
    return False


def names_gpu(program: Program) -> bool:
    """Return whether a program takes a GPU by its name, whatever its options are (``device = "cuda:0"``,
    ``model.cuda()``)."""
    modules = program.modules_where(lambda project, path: project.word_index.holds(path, b"cuda"))
    return any(_names_gpu_itself(module) for module in modules)


def _names_gpu_itself(module: ModuleIndex) -> bool:
    return any(
        isinstance(text.value, str) and _CUDA.fullmatch(text.value) and _is_place(module, text)
        for text in module.syntax.of(ast.Constant)
    ) or any(
        module.function(call) is None and not any(conditions(module, call))
        for call in module.calls_by_name.get("cuda", ())
    )


def _is_place(module: ModuleIndex, text: ast.Constant) -> bool:
    up = module.syntax.parents.get(text)
    match up:
        case ast.Assign(targets=[ast.Name(id=name)]):
            placed = "device" in name.lower() or name.lower() == "dev"
        case ast.keyword(arg="device"):
            placed = True
        case ast.Call(args=[given, *_], func=func):
            placed = given is text and last_name(func) in _PLACES
        case _:
            placed = False
    return placed and not any(conditions(module, text))
