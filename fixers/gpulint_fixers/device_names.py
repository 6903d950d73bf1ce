"""Calls that name a device."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.workspace.module_index import last_name

_DEVICE = regex.compile(r"(^|_)(device|dev|cuda|gpu)s?(_id)?$|^cuda(:\d+)?$", re.IGNORECASE)


def gets_device(call: ast.Call) -> bool:
    """``get_dataset(cfg, device)``"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        _DEVICE.search(str(value.value) if isinstance(value, ast.Constant) else last_name(value)) is not None
        for value in given
        if isinstance(value, ast.Name | ast.Attribute | ast.Constant)
        or (isinstance(value, ast.Call) and last_name(value.func) == "device")
    )
