"""Calls that copy a batch as an option of the program or a caller says."""

from __future__ import annotations

import ast

from gpulint.placement.device_transfers import Transfer
from gpulint.semantic.argument_binding import parameters


def passes_options_on(call: ast.Call) -> bool:
    return any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)


def forwards_choice(transfer: Transfer) -> bool:
    """``value.to(device, non_blocking=non_blocking)`` with a parameter of the function, which a constant in its place
    would leave without effect."""
    call = transfer.node
    function = transfer.call.module.function(call)
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "non_blocking")]
    named = {value.id for value in given if isinstance(value, ast.Name)}
    return function is not None and bool(named & parameters(function))


def chosen(transfer: Transfer) -> str:
    """``args.pinned`` of ``x.to(device, non_blocking=args.pinned)``"""
    given = [keyword.value for keyword in transfer.node.keywords if keyword.arg == "non_blocking"]
    return next((ast.unparse(value) for value in given if not isinstance(value, ast.Constant)), "")
