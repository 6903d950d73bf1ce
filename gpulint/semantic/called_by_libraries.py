"""Which methods of a class a library may call by their names: those of its own bases, and those that tools ask for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.semantic.points_to import Resolver

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_PLAIN_BASES = frozenset({"object", "ABC", "namedtuple", "NamedTuple", "Generic"})
"""Bases that call no method of a class."""
_OF_MODULES = frozenset(
    {
        "torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module",
        "torch.utils.data.Dataset", "torch.utils.data.dataset.Dataset", "torch.utils.data.IterableDataset",
        "torch.utils.data.dataset.IterableDataset",
    }
)  # fmt: skip
"""Bases whose methods are known."""
_OF_LIGHTNING = regex.compile(r"(pytorch_)?lightning(_fabric)?\.(\w+\.)*(LightningModule|LightningDataModule|Callback)")
"""Bases of Lightning, whose hooks are known."""
_HOOKS = frozenset(
    {
        "setup", "teardown", "prepare_data", "forward", "backward", "manual_backward", "toggle_optimizer",
        "untoggle_optimizer", "clip_gradients", "tbptt_split_batch", "transfer_batch_to_device",
        "get_progress_bar_dict", "freeze", "unfreeze", "to_onnx", "to_torchscript", "log", "log_dict", "print",
        "all_gather", "optimizers", "lr_schedulers", "save_hyperparameters", "load_from_checkpoint", "summarize",
        "state_key", "batch_size",
    }
)  # fmt: skip
_PARTS_OF_HOOKS = regex.compile(
    r"(on|configure|optimizer|lr_scheduler|train(ing)?|val(idation)?|test|predict|sanity|get)_\w+|\w+_(dataloaders?|step|epoch_end|step_end)"
)
"""How hooks of Lightning are called."""
_CALLED = frozenset(
    {
        # torch.nn.Module
        "forward", "train", "eval", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "apply",
        "parameters", "named_parameters", "buffers", "named_buffers", "children", "named_children", "modules",
        "named_modules", "state_dict", "load_state_dict", "zero_grad", "requires_grad_", "extra_repr", "to_empty",
        "get_extra_state", "set_extra_state", "get_parameter", "get_submodule", "get_buffer", "add_module", "compile",
        "register_module", "register_parameter", "register_buffer", "share_memory", "ipu", "xpu", "mtia",
        # libraries that build, wrap, train or export models
        "reset_parameters", "init_weights", "reset", "reset_classifier", "get_classifier", "no_weight_decay",
        "no_weight_decay_keywords", "no_decay", "group_matcher", "set_grad_checkpointing", "load_pretrained",
        "gradient_checkpointing_enable", "gradient_checkpointing_disable", "enable_input_require_grads", "tie_weights",
        "get_input_embeddings", "set_input_embeddings", "get_output_embeddings", "set_output_embeddings",
        "resize_token_embeddings", "prepare_inputs_for_generation", "generate", "can_generate", "save_pretrained",
        "from_pretrained", "push_to_hub", "floating_point_ops", "num_parameters", "tokenize", "encode", "decode",
        "loss", "predict", "predict_step", "train_step", "val_step", "test_step", "training_step", "validation_step",
        "configure_optimizers", "forward_train", "forward_test", "simple_test", "aug_test", "forward_dummy",
        "max_positions", "set_num_updates", "reorder_incremental_state", "get_normalized_probs", "get_targets",
        "upgrade_state_dict", "upgrade_state_dict_named", "make_generation_fast_", "prepare_for_onnx_export_",
        "build_model", "add_args", "reduce_metrics", "preprocess", "postprocess", "inference", "flops", "save", "load",
        "get_config_dict", "get_sentence_embedding_dimension", "get_word_embedding_dimension", "custom_loss",
        "value_function", "get_initial_state", "act", "get_value", "evaluate_actions", "log_prob", "sample", "fuse",
        "update", "compute", "sync", "fit", "prepare", "switch_to_deploy", "enable_xformers_memory_efficient_attention",
        # data sets
        "set_epoch", "set_transform", "collate_fn", "collate", "collater", "get_labels", "get_dummy_batch", "size",
        "num_tokens", "ordered_indices", "prefetch", "filter_indices_by_size", "get_img_info", "get_cat_ids", "len",
        "indices", "get", "process", "download", "setup", "prepare_data", "num_classes", "get_weights",
    }
)  # fmt: skip
"""Methods of these bases, and those that libraries call of any model or data set that has them."""


@query
def derives_from_own(project: Project, module: ModuleIndex, owner: ast.ClassDef, method: str) -> bool:
    """Return whether each base of a class is in the tree, calls no method, or none of the method's name."""
    resolver = project.fact(Resolver)
    for where, one in resolver.mro(module, owner):
        for base in one.bases:
            plain = base.func if isinstance(base, ast.Call) else base.value if isinstance(base, ast.Subscript) else base
            name = plain.attr if isinstance(plain, ast.Attribute) else getattr(plain, "id", "")
            if name in _PLAIN_BASES:
                continue
            if not _OF_MODULES.isdisjoint(resolver.names(where, plain)):
                if _is_known(method):
                    return False
                continue
            if any(map(_OF_LIGHTNING.fullmatch, resolver.names(where, plain))):
                if _is_known(method) or method in _HOOKS or _PARTS_OF_HOOKS.fullmatch(method):
                    return False
                continue
            if not any(isinstance(ref.node, ast.ClassDef) for ref in resolver.points_to(where, plain)):
                return False
    return True


def _is_known(method: str) -> bool:
    """Return whether a library may call a method of a model by its name: those of hooks begin with a few words."""
    return method in _CALLED or method.startswith(("_", "on_", "register_", "named_"))
