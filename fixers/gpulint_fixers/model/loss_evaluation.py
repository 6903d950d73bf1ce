"""Trainers of Hugging Face whose evaluation keeps nothing but the loss."""

from __future__ import annotations

import ast

from gpulint.documents.call_syntax import keyword_value
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workload.batch_sources import BatchSource
from gpulint.workload.trainer_workers import trainers_of
from gpulint.workspace.module_index import NodeRef

_PLAIN = frozenset({"transformers.Trainer", "transformers.trainer.Trainer"})
_COMPUTES = ("compute_metrics", "compute_loss_func", "callbacks")


def keeps_losses_alone(project: Project, source: BatchSource) -> bool:
    """Return whether all trainers that get some arguments are those of the library and compute no metrics: they then
    evaluate the loss alone, and give up each batch's outputs.

    https://github.com/huggingface/transformers/blob/v4.57.0/src/transformers/trainer.py: ``prediction_loss_only``
    """
    if not source.keyword.startswith("per_device"):
        return False
    trainers = list(trainers_of(project, NodeRef(source.call.module, source.node)))
    return bool(trainers) and all(_is_plain(project, trainer) for trainer in trainers)


def _is_plain(project: Project, trainer: NodeRef) -> bool:
    call = trainer.node
    if not isinstance(call, ast.Call) or not project.fact(Resolver).call_names(trainer.module, call) & _PLAIN:
        return False
    if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args):
        return False
    return all(keyword_value(call, name) is None for name in _COMPUTES) and len(call.args) <= 1
