"""Imports read from bytes name what the bindings of a parsed module name."""

from __future__ import annotations

import pytest

from gpulint.workspace.imports import imported_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import torch", ["torch"]),
        ("import torch.nn as nn, os", ["torch.nn", "os"]),
        ("import torch.nn", ["torch", "torch.nn"]),
        ("from torch import nn as n, optim", ["torch.nn", "torch.optim"]),
        ("from . import engine", [".engine"]),
        ("from ..lib.data import make  # why", ["..lib.data.make"]),
        ("from a import *", ["a.*"]),
        ("from a import (\n    b,  # not (c)\n    d as e,\n)\n", ["a.b", "a.d"]),
        ("from a \\\n    import b, \\\n    c\n", ["a.b", "a.c"]),
        ("try: import apex\nexcept ImportError: apex = None", ["apex"]),
        ("def f():\r\n    from a import b\r\n    return b\r\n", ["a.b"]),
        ("import a; import b", ["a", "b"]),
        ("\ufeffimport a", ["a"]),
        ("# import a\nx = 'import b'\nimportlib = 1\n", []),
        ('def f():\n    """Example::\n\n        import a\n    """\n    import b\n', ["b"]),
    ],
)
def test_names_of_imports(text: str, names: list[str]) -> None:
    assert list(imported_names(text.encode())) == names
