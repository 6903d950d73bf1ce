"""Where a value lives: evidence that it is a tensor that a model computed on the GPU, or that the host holds it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.distributions import draws_on_host
from gpulint.placement.expressions import element, is_float, is_number, is_text, is_weight, joined_parts, looped_over
from gpulint.placement.host_batches import is_batch_on_host
from gpulint.placement.host_models import is_model_on_host
from gpulint.placement.host_results import (
    casts_to_host,
    comes_to_host,
    copies_to_host,
    first_operand,
    gets_host,
    is_array_on_host,
    is_given_as_array,
    is_kept_on_host,
    is_passed_from_host,
    items_of,
    makes_tensor,
    returns_host,
    runs_itself,
)
from gpulint.placement.host_targets import has_host_target
from gpulint.placement.tensor_results import MAKES, gives_no_tensor
from gpulint.placement.trial_calls import is_trial, without_trials
from gpulint.placement.unpacked_values import adds_tensors, computes_on_host, others, unpacks_host, with_sums
from gpulint.query import cyclic
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.semantic.type_tests import is_of_other_type
from gpulint.training.forward_calls import forward_calls
from gpulint.training.loop_contexts import LoopContexts
from gpulint.values.bound_parts import bound_part
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LOSS = regex.compile(r"(^|_|[a-z])(loss|losses|err[A-Z]?|nll|kld|bce|elbo)(_|\d|$)|^loss", re.IGNORECASE)
_TENSOR_NAME = regex.compile(r"loss|logit|^(out|outs|output|outputs|pred|preds|grad_norm|total_norm)$", re.IGNORECASE)
_STEP = regex.compile(r"(^|_)(step|batch|iter|iteration|train|update|optimize)(_|$)")
"""Functions of a program's own that do a step and hand back its loss."""
_REDUCES = regex.compile(r"(^|_)(all_?)?reduced?(_|$)|^reduce[A-Z]")
"""Functions of a program's own that average a value over its processes."""
_HOST_ROOTS = frozenset({"numpy", "np", "random", "math", "cv2", "pandas", "time", "os", "sklearn", "scipy"})
_METHODS = frozenset(
    "detach mean sum max min abs norm clone float half double to cuda data view reshape squeeze unsqueeze sqrt exp log "
    "pow div mul add sub argmax topk eq flatten permute transpose t softmax sigmoid".split()
)
"""Frequent methods of tensors, which no class of the tree stands behind."""
_NO_TENSORS = ("torch.optim.", "torch.utils.", "torch.distributed.", "torch.profiler.")
"""Modules whose functions return other objects."""
_PAIRS = frozenset({"max", "min", "topk", "sort", "median", "mode", "kthvalue", "cummax", "cummin"})
"""What returns values and their places, two tensors."""
_OF_ITEMS = frozenset({"max", "min", "sum", "abs", "sorted"})  # builtins that compute where their argument lies
_NO_VALUES = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_SETTING = regex.compile(r"scale|weight|fn|func|coef|type|name|lambda|alpha|interval|config|cfg|option|setting", re.I)
_FACTOR = regex.compile(r"(scale|scaler|weight|weights|coef|coeff|factor|schedule)$", re.IGNORECASE)


class TensorLocations:
    """Tensors in the modules of one project. With ``callers``, a parameter is what all callers of its function hand
    in; that takes longer to find out."""

    def __init__(self, project: Project, callers: bool = False) -> None:
        self._project = project
        self.db = project.db
        self._callers = callers

    def is_host(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether the value is certainly in host memory: NumPy, a loader's own batch, or copied there before."""
        return self._is_host(self._callers, module, node)

    @cyclic(False)
    def _is_host(self, _: bool, module: ModuleIndex, node: ast.expr) -> bool:
        if (is_unmoved := is_batch_on_host(self._project, module, node)) is not None:
            return is_unmoved
        match node:
            case ast.Call(func=func):
                roots = {name.split(".", 1)[0] for name in self._project.fact(Resolver).names(module, func)}
                known = bool(roots & _HOST_ROOTS) or self.is_made_on_host(module, node)
                known = known or is_model_on_host(module, func)
                if known or comes_to_host(self._project, module, node, self.is_host):
                    return True
                if isinstance(func, ast.Attribute):
                    if func.attr in ("cpu", "numpy", "item", "tolist") or copies_to_host(node) or casts_to_host(node):
                        return True
                    if (move := self._project.fact(DeviceTransfers).transfer_at(module, node)) and move.to_gpu:
                        return False
                if has_host_target(self._project, module, node):
                    return True
                if (operand := first_operand(self._project, module, node)) is not None:
                    joined = operand.elts if isinstance(operand, ast.List) and operand.elts else [operand]
                    return all(self.is_host(module, part) for part in joined)
                if isinstance(func, ast.Attribute):
                    drawn = draws_on_host(self._project, module, func, self.is_tensor, self.is_host)
                    return drawn or self.is_host(module, func.value) or self._returns_host(module, node)
                if (name := last_name(func)) in _OF_ITEMS and node.args and not self._gets_host(module, node):
                    return all(self.is_host(module, argument) for argument in node.args)
                known = name in ("float", "int", "len", "sum_of", "range") or self._gets_host(module, node)
                return known or self._returns_host(module, node)
            case ast.Attribute(value=base) | ast.Subscript(value=base):
                return self.is_host(module, base) or is_kept_on_host(self._project, module, node, self.is_host)
            case ast.BinOp(left=left, right=right):
                return computes_on_host(module, (left, right), self.is_host) or self._scales_host(module, (left, right))
            case ast.Compare(left=left, comparators=[right]):
                return self._compares_on_host(module, (left, right)) or (
                    self.is_host(module, left) and self.is_host(module, right)
                )
            case ast.UnaryOp(operand=inner):
                return self.is_host(module, inner)
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_host(module, body) and self.is_host(module, orelse)
            case ast.Tuple(elts=parts) | ast.Dict(values=parts):
                return bool(parts) and all(self.is_host(module, part) for part in parts)
            case ast.Name():
                return is_given_as_array(module, node) or self._is_host_name(module, node)
        return isinstance(node, ast.Constant)

    def _scales_host(self, module: ModuleIndex, parts: tuple[ast.expr, ast.expr]) -> bool:
        """Return whether a number goes with what nothing tells to be a tensor on the GPU."""
        return any(map(is_number, parts)) and not any(
            self.is_tensor(module, part) or adds_tensors(self._project, module, part, self.is_tensor) for part in parts
        )

    def _is_host_name(self, module: ModuleIndex, node: ast.Name) -> bool:
        """Return whether all that a name is bound to is in host memory."""
        reached = reaching(module, module.scope(node).lookup(node.id), node)
        bindings, added = with_sums(module, node, reached)
        values, unpacked = list[ast.expr](), 0
        for one in bindings:
            value, kind = one.value, one.kind
            if value is None or kind not in (BindingKind.ASSIGN, BindingKind.LOOP):
                continue
            if not one.path or (isinstance(value, ast.Call) and self._gets_host(module, value)):
                values.append(value)
            elif kind is BindingKind.ASSIGN and isinstance(part := bound_part(one), ast.expr):
                values.append(part)
            elif kind is BindingKind.LOOP and one.path == (1,) and (table := items_of(value)) is not None:
                values.append(table)
            elif kind is BindingKind.ASSIGN:
                unpacked += unpacks_host(self._project, module, one, self.is_host)
        # A parameter that is filled on the host where it is absent holds a host tensor where it is not.
        filled = sum(one.kind is BindingKind.PARAMETER for one in bindings) if len(bindings) > 1 else 0
        given = [value for value in values if value is not node]
        parts = [part for value in given for part in others(value, node.id)] or given
        return (
            bool(values or unpacked)
            and len(values) + unpacked + filled == len(bindings)
            and all(self.is_host(module, part) for part in (*parts, *added))
        )

    def _compares_on_host(self, module: ModuleIndex, parts: tuple[ast.expr, ...]) -> bool:
        """Return whether a value is a tensor of the host, which is only compared with another one, or a number."""
        return any(self._is_host_array(module, part) for part in parts) and not any(
            self.is_tensor(module, part) for part in parts
        )

    def _is_host_array(self, module: ModuleIndex, node: ast.expr) -> bool:
        return self._is_array(self._callers, module, node)

    @cyclic(False)
    def _is_array(self, _: bool, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether a tensor or array is of the host by what made it: a loader, or a call that names no device."""
        if is_given_as_array(module, node) or is_array_on_host(module, node, self._is_host_array):
            return True
        if isinstance(node, ast.Call):
            return self.is_made_on_host(module, node)
        return self._project.fact(BatchFlow).batch_of(module, node) is not None and self.is_host(module, node)

    def _gets_host(self, module: ModuleIndex, call: ast.Call) -> bool:
        return gets_host(self._project, module, call, self.is_host)

    def is_made_on_host(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether the call makes a tensor without naming a device."""
        placed = any(keyword.arg in ("device", None) for keyword in call.keywords)
        return not placed and makes_tensor(self._project, module, call)

    def _moves(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether the call moves a batch, or (where callers are consulted) anything, to what may be a GPU."""
        if last_name(call.func) not in ("to", "cuda", "type"):
            return False
        move = self._project.fact(DeviceTransfers).transfer_at(module, call)
        return move is not None and move.to_gpu and (self._callers or move.batch_read is not None)

    def is_tensor(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether the value is, by evidence, a tensor that a model or loss computed, still on the GPU."""
        return self._is_tensor(self._callers, module, node)

    @cyclic(False)
    def _is_tensor(self, _: bool, module: ModuleIndex, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return not is_of_other_type(module, node) and self._is_tensor_name(module, node, name)
            case ast.Attribute(value=base, attr=attr):
                if attr in ("loss", "logits") or self._is_placed(module, base):
                    return True
                if attr == "grad" and is_weight(module, base):
                    return True
                return attr in ("data", "grad", "T") and self.is_tensor(module, base)
            case ast.Subscript(value=base):
                return self.is_tensor(module, base) or self._is_placed(module, base)
            case ast.IfExp(body=body, orelse=orelse):
                parts = (body, orelse)
                return any(self.is_tensor(module, part) for part in parts) and not any(
                    self.is_host(module, part) for part in parts
                )
            case ast.BinOp(left=left, right=right):
                if is_text(left) or is_text(right):
                    return False
                return self.is_tensor(module, left) or self.is_tensor(module, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if not isinstance(op, _NO_VALUES):
                return self.is_tensor(module, left) or self.is_tensor(module, right)
            case ast.UnaryOp(op=ast.USub() | ast.Invert(), operand=inner):
                return self.is_tensor(module, inner)
            case ast.Call(func=func, args=args):
                name = last_name(func) if isinstance(func, ast.Name | ast.Attribute) else ""
                if gives_no_tensor(self._project, module, node, name, self.is_host):
                    return False
                if (
                    (MAKES.search(name) and not _FACTOR.search(name)) or runs_itself(self._project, module, func)
                ) and not self._returns_host(module, node):
                    return True
                if self._moves(module, node):
                    return True
                if isinstance(func, ast.Name) and (name in ("sum", "max", "min", "abs") or _REDUCES.search(name)):
                    return any(self.is_tensor(module, getattr(argument, "elt", argument)) for argument in args[:1])
                if isinstance(func, ast.Attribute) and self.is_tensor(module, func.value):
                    return name in _METHODS or not self._returns_host(module, node)
                names = self._project.fact(Resolver).names(module, func)
                if any(found.startswith("torch.") and not found.startswith(_NO_TENSORS) for found in names):
                    return any(self.is_tensor(module, part) for argument in args[:2] for part in joined_parts(argument))
                return self._returns_tensor(module, node)
        return False

    def _is_tensor_name(self, module: ModuleIndex, node: ast.Name, name: str) -> bool:
        evidence = False
        for binding in reaching(module, module.scope(node).lookup(name), node):
            if binding.kind is BindingKind.ASSIGN and binding.value is not None and binding.value is not node:
                if isinstance(binding.value, ast.Constant):
                    continue
                value, path = element(binding.value, binding.path)
                if path and not isinstance(value, ast.Call):
                    row = self._callers and isinstance(value, ast.Subscript) and self.is_tensor(module, value)
                    evidence = evidence or row or self._is_placed(module, value)
                    continue
                pair = isinstance(value, ast.Call) and last_name(value.func) in _PAIRS
                named = not path or _TENSOR_NAME.search(name) or pair
                if self.is_tensor(module, value) and named:
                    evidence = True
                else:
                    return False
            elif binding.kind is BindingKind.LOOP and binding.value is not None:
                evidence = self._is_row(module, binding.value, binding.path)
                if not evidence:
                    return False
            elif binding.kind is BindingKind.PARAMETER and self._callers:
                if not self._is_passed(module, name, binding.scope.node):
                    return False
                evidence = True
            elif binding.kind is BindingKind.PARAMETER:
                evidence = bool(_LOSS.search(name)) and not _SETTING.search(name) and not is_float(binding.node)
                if evidence and (
                    is_given_as_array(module, node) or is_passed_from_host(self._project, module, node, self.is_host)
                ):
                    return False
            elif binding.kind is BindingKind.AUGMENT:
                evidence = evidence or self._was_tensor(module, binding.node, node)
            else:
                return False
        return evidence

    def _is_row(self, module: ModuleIndex, source: ast.expr, path: tuple[int, ...]) -> bool:
        """Return whether a loop runs over a tensor: ``for row in preds``, ``for p, y in zip(preds, labels)``."""
        rows = looped_over(source, path)
        return rows is not None and self.is_tensor(module, rows)

    def _is_placed(self, module: ModuleIndex, node: ast.expr) -> bool:
        """Return whether it is the batch that a framework passes to a hook, on the GPU already."""
        if not self._callers or not isinstance(node, ast.Name):
            return False
        function = module.function(node)
        if function is None or [arg.arg for arg in function.args.args[1:2]] != [node.id]:
            return False
        bindings = reaching(module, module.scope(node).lookup(node.id), node)
        if not all(binding.kind is BindingKind.PARAMETER for binding in bindings):
            return False
        return self._project.fact(LoopContexts).gets_batch(module, function, "on-gpu")

    def _is_passed(self, module: ModuleIndex, name: str, function: ast.AST) -> bool:
        """Return whether all callers pass a tensor that they computed."""
        if not isinstance(function, FUNCTIONS):
            return False
        return self._all_passed(self._callers, module, name, function)

    @cyclic(False)
    def _all_passed(self, _: bool, module: ModuleIndex, name: str, function: FunctionNode) -> bool:
        resolver = self._project.fact(Resolver)
        first = [site for site in resolver.first_sites(module, function, 1) if not is_trial(module, site)]
        if first and not self._pass_tensors(function, name, first):
            return False  # which takes no search of the whole tree
        sites = without_trials(module, resolver.call_sites(module, function))
        if not sites and function.name == "forward":
            sites = forward_calls(self._project, module, function)
        return self._pass_tensors(function, name, sites)

    def _pass_tensors(self, function: FunctionNode, name: str, sites: Sequence[NodeRef]) -> bool:
        """Return whether there are calls, and each passes a tensor for a parameter."""
        handed = [
            (site.module, argument_of(function, site.node, name)) for site in sites if isinstance(site.node, ast.Call)
        ]
        return bool(handed) and all(value is not None and self.is_tensor(where, value) for where, value in handed)

    def _was_tensor(self, module: ModuleIndex, statement: ast.AST, node: ast.Name) -> bool:
        """Return whether the name was a tensor before, or what is added to it is one: ``loss /= steps``."""
        if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
            return False
        parts = [statement.value] if statement.target is node else [statement.target, statement.value]
        return any(self.is_tensor(module, part) for part in parts)

    def _returns_host(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether a function of the tree returns what it has read from the GPU already."""
        return returns_host(self._project, module, call, self.is_host)

    def _returns_tensor(self, module: ModuleIndex, call: ast.Call) -> bool:
        """Return whether a step of the tree (``loss = self.train_step(batch)``) always returns what it computed."""
        if not _STEP.search(last_name(call.func)):
            return False
        returned = [
            (callee.module, value)
            for callee in self._project.fact(Resolver).callees(module, call)
            if isinstance(callee.node, ast.FunctionDef)
            for value in self._project.fact(Resolver).returns(callee.node)
        ]
        return bool(returned) and all(self.is_tensor(where, value) for where, value in returned)
