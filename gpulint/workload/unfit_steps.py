"""Loaders of Lightning's data modules whose batches have another number of parts than the steps of the model unpack, so
that the first step raises an error, and those for which the model has no step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.unfit_batches import collates_parts, lengths_of, unpacked_to
from gpulint.workload.dataset_work import parts_of
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_STEPS = {
    "train_dataloader": "training_step",
    "val_dataloader": "validation_step",
    "test_dataloader": "test_step",
    "predict_dataloader": "predict_step",
}
"""Methods that make loaders -> the methods of a model that get their batches."""
_CHANGES = ("transfer_batch_to_device", "on_before_batch_transfer", "on_after_batch_transfer")
"""Methods that may change a batch before its step."""
MAX_FITS = 20
"""Most calls of a trainer that are looked at for a data module."""


@query
def feeds_unfit_steps(project: Project, loader: Loader) -> bool:
    """Return whether each model that is trained with the data module of a loader, or the model whose own loader it is,
    unpacks its batches to another number of values than all samples have (``x, y = batch`` of ``training_step``)."""
    module, call = loader.module, loader.node
    function, owner = module.function(call), module.class_of(call)
    step = _STEPS.get(getattr(function, "name", ""))
    if owner is None or step is None or not collates_parts(loader) or any(map(module.named.__contains__, _CHANGES)):
        return False
    models = _models(project, NodeRef(module, owner), step)
    if not models or not (lengths := _lengths(project, loader)):
        return False
    return all(bool(wanted := _wanted(project, model, step)) and wanted not in lengths for model in models)


@query
def feeds_no_step(project: Project, loader: Loader) -> bool:
    """Return whether the models that are trained with the data module of a loader have no step for its batches, so that
    Lightning leaves its loop out (``val_dataloader`` without ``validation_step``)."""
    module, call = loader.module, loader.node
    function, owner = module.function(call), module.class_of(call)
    step = _STEPS.get(getattr(function, "name", ""))
    if owner is None or step is None or step == "training_step":
        return False
    resolver, data = project.fact(Resolver), NodeRef(module, owner)
    trains = resolver.method(module, owner, "training_step") is not None
    models = [data] if trains else _models(project, data, step)
    return bool(models) and all(_is_without(project, model, step) for model in models)


def _is_without(project: Project, model: NodeRef, step: str) -> bool:
    """Return whether a model has no step of its own: neither its class nor those that it is made from, all known."""
    assert isinstance(model.node, ast.ClassDef)
    resolver = project.fact(Resolver)
    if resolver.method(model.module, model.node, step) is not None:
        return False
    return all(
        any(name.endswith(".LightningModule") for name in resolver.names(where, base))
        or resolver.classes_of(where, base)
        for where, one in resolver.mro(model.module, model.node)
        for base in one.bases
    )


def _models(project: Project, data: NodeRef, step: str) -> list[NodeRef]:
    """Return the classes whose steps get the batches of a data module; none if one is not seen."""
    resolver = project.fact(Resolver)
    assert isinstance(data.node, ast.ClassDef)
    if resolver.method(data.module, data.node, step) is not None:
        return [data]
    found = list[NodeRef]()
    fits = list(_fits(project, data))
    for module, model in fits[:MAX_FITS]:
        classes = resolver.classes_of(module, model)
        if not classes or len(fits) > MAX_FITS:
            return []
        found += (NodeRef(*one) for one in classes)
    return list(dict.fromkeys(found))


def _fits(project: Project, data: NodeRef) -> Iterator[tuple[ModuleIndex, ast.expr]]:
    """Yield the models that calls of trainers get with a data module (``trainer.fit(model, datamodule=data)``)."""
    assert isinstance(data.node, ast.ClassDef)
    resolver = project.fact(Resolver)
    for user in project.users_of(data.module, {data.node.name}):
        for call in user.calls_by_name.get("fit", ()):
            match call:
                case ast.Call(args=[model, *others], keywords=keywords):
                    given = [*others[:1], *(word.value for word in keywords if word.arg == "datamodule")]
                    owners = {one for value in given for _, one in resolver.classes_of(user, value)}
                    if data.node in owners:
                        yield user, model


def _wanted(project: Project, model: NodeRef, step: str) -> int:
    """Return to how many values the step of a model unpacks its batch; 0 if it does something else."""
    assert isinstance(model.node, ast.ClassDef)
    found = project.fact(Resolver).method(model.module, model.node, step)
    changed = any(project.fact(Resolver).method(model.module, model.node, name) for name in _CHANGES)
    if found is None or changed or not isinstance(found.node, FUNCTIONS) or len(found.node.args.args) < 2:
        return 0
    return unpacked_to(found.node.body, found.node.args.args[1].arg)


def _lengths(project: Project, loader: Loader) -> set[int]:
    """Return the lengths of the samples of a loader; none if one is unknown."""
    lengths = [lengths_of(project, ref) for ref in parts_of(project, loader)]
    return set().union(*lengths) if lengths and all(lengths) else set()
