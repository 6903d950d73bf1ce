"""Imports that repairs need go above the first import, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpulint_fixers.imports import add_import

from gpulint.documents.python import PythonModule
from gpulint.edits import apply
from gpulint.source import SourceText
from gpulint.workspace.index_builder import index_module


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n", "import os\nimport torch\n"),
        ("import os\n", "import os\n"),
        ("import os.path\n", "import os.path\n"),
        ("import torch as os\n", "import os\nimport torch as os\n"),
        (
            '"""Doc."""\nfrom __future__ import annotations\n\nx = 1\n',
            '"""Doc."""\nfrom __future__ import annotations\n\nimport os\nx = 1\n',
        ),
        ("#!/usr/bin/env python\r\nimport torch\r\n", "#!/usr/bin/env python\r\nimport os\r\nimport torch\r\n"),
        ("@wrap\ndef f():\n    pass\n", "import os\n@wrap\ndef f():\n    pass\n"),
        ('"""Doc."""\n', '"""Doc."""\n'),
    ],
)  # fmt: skip
def test_where_an_import_goes(before: str, after: str) -> None:
    module = index_module(PythonModule(Path("a.py"), before, SourceText(before).span))
    assert apply(before, add_import(module, "os")) == after
