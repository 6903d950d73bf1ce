"""Find and build the model to estimate: a factory in a file or module, or a timm, torchvision or transformers name.

A factory is the user's code and runs because the user named it; weights are never downloaded.
"""

# PyTorch types these calls and bases in part, and not at all where it is not installed.
# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from gpulint.suggestions import suggestion
from gpulint_probe.estimator.adapters import (
    LightningStep,
    Several,
    compiling_recorded,
    downloads_asked_for,
    is_lightning,
    lightning_optimizer,
)
from gpulint_probe.estimator.devices import BuildOnMeta
from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.megatron import Stage, parse_layout
from gpulint_probe.estimator.optimizers import rebind


@dataclass(slots=True)
class Target:
    """A model on the meta device; ``example`` and ``optimizer`` are None unless the factory returned them.

    ``default_input`` is the usual ``--input`` of a model of a library ("" where there is none).
    """

    model: torch.nn.Module
    example: Any = None
    optimizer: torch.optim.Optimizer | None = None
    default_input: str = ""
    notes: list[str] = field(default_factory=list)


def load_target(text: str, arguments: Mapping[str, Any] | None = None, program_args: Sequence[str] = ()) -> Target:
    """Build ``file.py:function``, ``module:function``, ``timm:NAME``, ``torchvision:NAME`` or ``hf:PATH/config.json``.

    ``arguments`` are keyword arguments of the factory; ``program_args`` are the command line that its program sees, as
    many scripts parse theirs when they are imported. Raises EstimateError.
    """
    kind, separator, name = text.rpartition(":")
    if not separator or not kind or not name:
        raise EstimateError(
            f"target {text!r} is not FILE.py:FUNCTION, MODULE:FUNCTION, timm:NAME, torchvision:NAME or hf:PATH"
        )
    repair_torchvision()
    library = {"timm": _timm, "torchvision": _torchvision, "hf": _hugging_face, "megatron": _megatron}.get(kind)
    notes: list[str] = []

    def note(remark: str) -> None:
        if remark not in notes:
            notes.append(remark)

    patched_argv = mock.patch.object(sys, "argv", [kind, *program_args])
    with _no_downloads(), patched_argv, compiling_recorded(note):
        factory, default_input = library(name) if library is not None else (_factory(kind, name), "")
        result = _build(text, factory, _resolved(factory, arguments or {}))
        target = _unpack(text, result)
    target.notes = notes + target.notes
    target.default_input = default_input or _declared_input(target.model)
    return target


def _build(text: str, factory: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        with BuildOnMeta():
            return factory(**arguments)
    except EstimateError:
        raise
    except Exception:
        pass
    try:
        return factory(**arguments)
    except EstimateError:
        raise
    except MemoryError:
        raise EstimateError(f"{text} can be built neither on the meta device nor in this machine's memory") from None
    except Exception as error:
        line = next((line for line in str(error).splitlines() if line.strip()), "")
        if downloads_asked_for(str(error)):
            raise EstimateError(
                f"{text} asks for pretrained weights, and nothing is downloaded; their values do not matter here:"
                " build the model from its configuration, as in AutoModel.from_config(AutoConfig.from_pretrained(DIR))"
            ) from error
        raise EstimateError(f"{text} raises {type(error).__name__}: {line}") from error


def _resolved(factory: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with names of the factory's module (``GPTConfig``, ``GPTConfig(n_layer=2)``) evaluated."""
    known = getattr(factory, "__globals__", None) or vars(sys.modules.get(getattr(factory, "__module__", ""), object))

    def value(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        try:
            tree = ast.parse(text, mode="eval").body
            called = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.args
            if isinstance(tree, ast.Name) and callable(known.get(tree.id)):
                return known[tree.id]
            if called and callable(known.get(tree.func.id)):  # type: ignore[attr-defined]
                options = {item.arg: ast.literal_eval(item.value) for item in tree.keywords}  # type: ignore[attr-defined]
                return known[tree.func.id](**options)  # type: ignore[attr-defined]
        except (SyntaxError, ValueError, TypeError):
            pass
        return text

    return {name: value(given) for name, given in arguments.items()}


def _unpack(text: str, result: Any) -> Target:
    parts = result if isinstance(result, tuple) else (result,)
    count = next((i for i, part in enumerate(parts) if not isinstance(part, torch.nn.Module)), len(parts))
    models, rest = parts[:count], parts[count:]
    if not models or len(rest) > 2:
        shown = ", ".join(type(part).__name__ for part in parts)
        raise EstimateError(f"{text} returns {shown}; expected a model, or (model, example batch[, optimizer])")
    notes = []
    model: torch.nn.Module = models[0]
    if len(models) > 1:
        names = ", ".join(type(part).__name__ for part in models)
        notes.append(f"{len(models)} models ({names}) are trained in one step and their memory is added up")
        model = Several(models)
    example = rest[0] if rest else None
    optimizer = rest[1] if len(rest) > 1 else None
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise EstimateError(f"{text} returns {type(optimizer).__name__} where an optimizer is expected")
    renewed = to_meta(model)
    if is_lightning(model):
        if optimizer is None:
            optimizer = lightning_optimizer(model)
            notes.append("optimizer and loss are the LightningModule's own")
        model = LightningStep(model)
    elif optimizer is not None:
        rebind(optimizer, renewed)
    return Target(model, example, optimizer, notes=notes)


def to_meta(model: torch.nn.Module) -> dict[int, torch.nn.Parameter]:
    """Move a model to the meta device with its tied weights tied, which ``Module.to`` unties.

    Returns the parameters that replaced others, by the id of the old one.
    """
    shared: dict[int, list[tuple[torch.nn.Module, str]]] = {}
    before: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                shared.setdefault(id(parameter), []).append((module, name))
                before[id(parameter)] = parameter
    model.to("meta")
    renewed = {}
    for identity, places in shared.items():
        first, name = places[0]
        moved = first._parameters[name]
        assert moved is not None
        for module, other in places[1:]:
            module._parameters[other] = moved
        renewed[identity] = moved
    _kept.extend(before.values())  # so that no other parameter gets one of these ids
    return renewed


_kept: list[torch.nn.Parameter] = []


def _factory(place: str, name: str) -> Callable[..., Any]:
    if place.endswith(".py") or os.sep in place:
        path = Path(place)
        if not path.is_file():
            raise EstimateError(f"no file {place}")
        sys.path.insert(0, str(path.resolve().parent))
        module_name = path.stem
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise EstimateError(f"{place} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(module_name, module)
        _import(place, lambda: spec.loader.exec_module(module))  # type: ignore[union-attr, unused-ignore]
    else:
        sys.path.insert(0, str(Path.cwd()))
        module = _import(place, lambda: importlib.import_module(place))
    factory = getattr(module, name, None)
    if factory is None:
        raise EstimateError(f"{place} has no {name!r}")
    if not callable(factory):
        raise EstimateError(f"{place}:{name} is {type(factory).__name__}, not a function")
    return factory


def _import(place: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except SystemExit:
        raise EstimateError(
            f"importing {place} ended the program (sys.exit at module level); if it needs arguments, pass them with"
            " --program-args"
        ) from None
    except Exception as error:
        line = next((line for line in str(error).splitlines() if line.strip()), "")
        raise EstimateError(f"importing {place} fails: {type(error).__name__}: {line}") from error


def _timm(name: str) -> tuple[Callable[..., Any], str]:
    timm = _import("timm", lambda: importlib.import_module("timm"))
    if not timm.is_model(name):
        raise EstimateError(f"timm has no model {name!r}{suggestion(name, timm.list_models())}")

    def build(**arguments: Any) -> Any:
        try:
            return timm.create_model(name, pretrained=False, **arguments)
        except RuntimeError as error:  # an old name whose weights are gone; the architecture is still there
            old = re.match(r"Invalid pretrained tag \(.*?\) for (\w+)", str(error))
            if old is None:
                raise
            return timm.create_model(old[1], pretrained=False, **arguments)

    return build, ""


def _torchvision(name: str) -> tuple[Callable[..., Any], str]:
    models = _import("torchvision", lambda: importlib.import_module("torchvision.models"))
    if name not in models.list_models():
        raise EstimateError(f"torchvision has no model {name!r}{suggestion(name, models.list_models())}")
    size = 299 if name == "inception_v3" else 224
    options: dict[str, Any] = {"init_weights": False} if name in ("inception_v3", "googlenet") else {}
    if "weights_backbone" in inspect.signature(models.get_model_builder(name)).parameters:
        options["weights_backbone"] = None
    return lambda **arguments: models.get_model(name, weights=None, **{**options, **arguments}), f"3x{size}x{size}"


def _hugging_face(place: str) -> tuple[Callable[..., Any], str]:
    path = Path(place)
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise EstimateError(f"no file {place}; hf: takes the path of a local config.json, nothing is downloaded")
    transformers = _import("transformers", lambda: importlib.import_module("transformers"))
    config = _import(place, lambda: transformers.AutoConfig.from_pretrained(str(path)))
    longest = getattr(config, "max_position_embeddings", None) or 512

    def build(**arguments: Any) -> Any:
        for key, value in arguments.items():
            setattr(config, key, value)
        architecture = getattr(transformers, (config.architectures or [""])[0], None)
        return architecture(config) if architecture is not None else transformers.AutoModel.from_config(config)

    image = getattr(config, "image_size", None)
    if isinstance(image, int) and not hasattr(config, "vocab_size"):
        return build, f"{getattr(config, 'num_channels', 3)}x{image}x{image}"
    return build, f"tokens:{min(512, longest)}"


def _megatron(text: str) -> tuple[Callable[..., Any], str]:
    layout = parse_layout(text)
    return lambda **_: Stage(layout), f"tokens:{layout.seq}"


def _declared_input(model: torch.nn.Module) -> str:
    size = getattr(model, "default_cfg", {}).get("input_size") if hasattr(model, "default_cfg") else None
    return "x".join(str(n) for n in size) if size else ""


def repair_torchvision() -> None:
    """Make torchvision importable where its compiled operators were built for another torch.

    Its import fails over the shape functions of two operators that are then missing. Models for classification need
    neither, so the two are declared.
    """
    spec = None if "torchvision" in sys.modules or _LIBRARIES else importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    try:
        for library in Path(spec.origin).parent.glob("_C*.so"):
            torch.ops.load_library(str(library))
            return
    except OSError:
        pass
    _LIBRARIES.append(torch.library.Library("torchvision", "FRAGMENT"))
    for operator in ("nms", "qnms"):
        _LIBRARIES[0].define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_LIBRARIES: list[torch.library.Library] = []


@contextmanager
def _no_downloads() -> Iterator[None]:
    def refuse(url: str, *_: Any, **__: Any) -> Any:
        raise EstimateError(
            f"the factory asks for weights ({url}); none are downloaded, and none are needed: build it without"
        )

    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with mock.patch.dict(os.environ, offline), mock.patch("torch.hub.load_state_dict_from_url", refuse):
        yield
