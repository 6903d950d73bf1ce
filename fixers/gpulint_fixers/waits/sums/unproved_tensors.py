"""Values that a fix keeps on the GPU without proof that they are tensors."""

from __future__ import annotations

import ast

from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.device_reads import DeviceRead, is_torch_tensor

_SHORT = 40
"""Most characters of an expression that a description shows."""


def taken_for_tensors(project: Project, module: ModuleIndex, reads: list[DeviceRead]) -> list[str]:
    """Return what a fix takes for granted of the values that it keeps on the GPU, where there is no proof."""
    texts = (ast.unparse(read.tensor) for read in reads if not is_torch_tensor(project, module, read.tensor))
    return [f"{f'`{text}`' if len(text) <= _SHORT else 'what is read'} is taken for a tensor" for text in texts][:1]
