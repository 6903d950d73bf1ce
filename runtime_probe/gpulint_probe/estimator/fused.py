"""Operators that are one kernel on CUDA and several on meta tensors.

An operator with a composite kernel (CompositeImplicitAutograd) and one of its own for CUDA, such as ``mish_backward``
or ``_fused_rms_norm``, decomposes on every device without a kernel of its own: on meta it would leave temporaries that
CUDA never makes. Which operators these are is read from PyTorch's own dispatch table, the ``native_functions.yaml``
that is installed with it (torchgen), so the list is that of the installed version.
"""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path
from typing import Any

import torch

_FUNCTION = re.compile(r"^- func: ([\w.]+)\(")
_BACKENDS = re.compile(r"^    ([\w, ]+):")
# Where torchgen is not installed: the operators of PyTorch 2.13.
_OF_2_13 = ("_fused_rms_norm", "mish_backward")


def fused_on_cuda() -> tuple[str, ...]:
    """Names (with overload) of the operators that decompose on meta and have a kernel of their own for CUDA."""
    spec = importlib.util.find_spec("torchgen")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    table = Path(places[0], "packaged", "ATen", "native", "native_functions.yaml") if places else Path()
    if not table.is_file():
        return _OF_2_13
    found, name, keys = [], "", set[str]()
    for line in [*table.read_text(encoding="utf-8").splitlines(), "- func: end("]:
        function = _FUNCTION.match(line)
        if function:
            if {"CUDA", "CompositeImplicitAutograd"} <= keys and "Meta" not in keys:
                found.append(name)
            name, keys = function[1], set()
        elif (backends := _BACKENDS.match(line)) is not None:
            keys.update(key.strip() for key in backends[1].split(","))
    return tuple(found)


@functools.cache
def keep_fused() -> Any:
    """Make these operators single calls on meta tensors, for the rest of the process. Returns the registration."""
    library = torch.library.Library("aten", "IMPL")
    for full in fused_on_cuda():
        name, _, overload = full.partition(".")
        packet = getattr(torch.ops.aten, name, None)
        operator = getattr(packet, overload or "default", None)
        if operator is not None and library.m is not None:
            # Library.impl refuses meta kernels for composite operators: it cannot know that CUDA has one.
            library.m.impl(f"aten::{full}", "Meta", functools.partial(_shapes_of, operator), False)
    return library


def _shapes_of(operator: Any, *args: Any, **kwargs: Any) -> Any:
    return operator.decompose(*args, **kwargs)
