"""Evaluation that counts its batches, so that larger ones would change which samples it sees."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workload.data_split import Split, split_of
from gpulint.workspace.module_index import ModuleIndex


def counts_batches(module: ModuleIndex) -> bool:
    """Return whether the module tells Keras a number of evaluation batches."""
    return any(
        keyword.arg in ("validation_steps", "steps") and getattr(keyword.value, "value", 0) is not None
        for name in ("fit", "fit_generator", "evaluate", "evaluate_generator")
        for call in module.calls_by_name.get(name, [])
        for keyword in call.keywords
    )


def divides(module: ModuleIndex, size: str) -> bool:
    """Return whether a number of evaluation steps is computed from the size (``steps_per_eval = samples //
    batch_size``)."""
    for node in module.syntax.nodes:
        if not isinstance(node, ast.Assign) or split_of(ast.unparse(node.targets[0])) is not Split.EVAL:
            continue
        for part in walk(node.value):
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.FloorDiv | ast.Div):
                divisor = ast.unparse(part.right)
                if divisor == size or ("batch" in size.lower() and "batch" in divisor.lower()):
                    return True
    return False
