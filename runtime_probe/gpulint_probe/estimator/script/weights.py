"""Pretrained weights that a script asks for: its models are built without them, as their values do not matter here."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import torch

from gpulint_probe.estimator.script.imports import after_import

_NOT_LOADED = "pretrained weights are not loaded, as only their sizes matter"


class _Unread(dict[str, Any]):
    """The state of a model in a file that is not downloaded."""


def install(note: Callable[[str], None], stack: contextlib.ExitStack) -> None:
    """Build models of torch.hub, torchvision, timm and transformers without their weights until ``stack`` is closed."""
    real_load = torch.nn.Module.load_state_dict

    def unread(*_: Any, **__: Any) -> _Unread:
        note(_NOT_LOADED)
        return _Unread()

    def load(self: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(state, _Unread):
            return torch.nn.modules.module._IncompatibleKeys([], [])
        return real_load(self, state, *args, **kwargs)

    def timm(module: ModuleType) -> None:
        stack.enter_context(mock.patch.object(module, "load_pretrained", unread))

    def transformers(module: ModuleType) -> None:
        built = classmethod(functools.partial(_from_configuration, note))
        stack.enter_context(mock.patch.object(module.PreTrainedModel, "from_pretrained", built))

    def diffusers(module: ModuleType) -> None:
        built = classmethod(functools.partial(_of_diffusers, note))
        stack.enter_context(mock.patch.object(module.ModelMixin, "from_pretrained", built))

    def tensorboard(module: ModuleType) -> None:  # it traces the model to draw it
        stack.enter_context(mock.patch.object(module.SummaryWriter, "add_graph", lambda *_, **__: None))

    stack.enter_context(mock.patch.object(torch.hub, "list", _listing(note)))
    stack.enter_context(mock.patch.object(torch.hub, "load_state_dict_from_url", unread))
    stack.enter_context(mock.patch.object(torch.nn.Module, "load_state_dict", load))
    actions = {
        "timm.models._builder": timm,
        "transformers.modeling_utils": transformers,
        "diffusers.models.modeling_utils": diffusers,
        "torch.utils.tensorboard.writer": tensorboard,
    }
    after_import(actions, stack)


def _listing(note: Callable[[str], None]) -> Callable[..., list[str]]:
    """``torch.hub.list``, which finds nothing where it would have to download."""
    real_list = torch.hub.list

    def listed(*args: Any, **options: Any) -> list[str]:
        try:
            found: list[str] = real_list(*args, **options)
            return found
        except Exception:
            note("torch.hub.list finds no models, as nothing is downloaded")
            return []

    return listed


# Options of from_pretrained that are about files and placement, and not of the model's own.
_PLACEMENT = frozenset(
    "adapter_kwargs adapter_name cache_dir device_map dtype force_download from_flax from_tf generation_config "
    "gguf_file ignore_mismatched_sizes key_mapping load_in_4bit load_in_8bit local_files_only low_cpu_mem_usage "
    "max_memory mirror offload_buffers offload_folder offload_state_dict output_loading_info proxies "
    "quantization_config resume_download revision state_dict subfolder token torch_dtype "
    "tp_plan trust_remote_code use_auth_token use_safetensors variant "
    "weights_only".split()
)


def _from_configuration(note: Callable[[str], None], kind: Any, place: Any, *arguments: Any, **options: Any) -> Any:
    """``PreTrainedModel.from_pretrained`` without the weights, on the meta device."""
    note(_NOT_LOADED)
    if any(options.get(name) for name in ("quantization_config", "load_in_4bit", "load_in_8bit")):
        note("quantized weights are not simulated: they are counted in the model's own type")
    config = options.pop("config", None)
    if config is None or isinstance(config, str):
        known = {name: value for name, value in options.items() if name in ("cache_dir", "revision", "subfolder")}
        own = {name: value for name, value in options.items() if name not in _PLACEMENT and name[0] != "_"}
        config, own = kind.config_class.from_pretrained(config or place, return_unused_kwargs=True, **known, **own)
    else:
        own = {name: value for name, value in options.items() if name not in _PLACEMENT and name[0] != "_"}
    dtype = options.get("dtype") or options.get("torch_dtype") or "auto"
    if dtype != "auto":
        own["dtype"] = dtype
    with torch.device("meta"):
        model = kind(config, *arguments, **own) if arguments else kind._from_config(config, **own)
    model.name_or_path = config._name_or_path = str(place)
    model.eval()
    empty: dict[str, list[str]] = {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": [], "error_msgs": []}
    return (model, empty) if options.get("output_loading_info") else model


def _of_diffusers(note: Callable[[str], None], kind: Any, place: Any, **options: Any) -> Any:
    """``ModelMixin.from_pretrained`` without the weights."""
    note(_NOT_LOADED)
    known = {name: value for name, value in options.items() if name in ("cache_dir", "revision", "subfolder")}
    model = kind.from_config(kind.load_config(place, **known))
    dtype = options.get("torch_dtype") or options.get("dtype")
    if isinstance(dtype, torch.dtype):
        model = model.to(dtype)
    model.eval()
    return model
