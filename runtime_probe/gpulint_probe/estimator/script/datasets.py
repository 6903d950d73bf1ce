"""Made-up data in the shapes of well-known datasets, for ``--loader fake``."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import torch

from gpulint_probe.estimator.script.imports import after_import

# Class of torchvision.datasets: mode, size, classes, samples to train and to test on.
_IMAGES = {
    "MNIST": ("L", 28, 10, 60000, 10000), "FashionMNIST": ("L", 28, 10, 60000, 10000),
    "CIFAR10": ("RGB", 32, 10, 50000, 10000), "CIFAR100": ("RGB", 32, 100, 50000, 10000),
    "SVHN": ("RGB", 32, 10, 73257, 26032), "STL10": ("RGB", 96, 10, 5000, 8000),
    "ImageFolder": ("RGB", 500, 1000, 1281167, 50000), "ImageNet": ("RGB", 500, 1000, 1281167, 50000),
}  # fmt: skip


def install(how: str, made_up: Callable[[str], None], stack: contextlib.ExitStack) -> None:
    """Make up torchvision's image datasets until ``stack`` is closed: all (``how``: fake), or those without data.

    ``made_up`` is told of the latter.
    """

    def replace(module: ModuleType) -> None:
        for name, shape in _IMAGES.items():
            made = _made(name, *shape)
            if how != "fake":
                _instead(getattr(module, name), made, f"{shape[1]}x{shape[1]} in {shape[2]} classes", made_up, stack)
                continue
            stack.enter_context(mock.patch.object(module, name, made))
            for other in list(sys.modules.values()):
                if getattr(other, name, None) is not None and getattr(other, "__name__", "").startswith("timm"):
                    stack.enter_context(mock.patch.object(other, name, made))

    after_import({"torchvision.datasets": replace}, stack)


def _instead(kind: type, made: type, images: str, made_up: Callable[[str], None], stack: contextlib.ExitStack) -> None:
    """Let objects of a dataset's class become ``made`` ones where their data cannot be loaded."""
    real: Callable[..., None] = kind.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        try:
            real(self, *args, **options)
        except (OSError, RuntimeError):
            if type(self) is not kind:
                raise
            made_up(f"the data of {kind.__name__} is not at hand: images of {images} are made up")
            self.__class__ = made
            self.__init__(*args, **options)

    stack.enter_context(mock.patch.object(kind, "__init__", init))


def _tests(rest: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Return whether a call selects the test split: ``train=False``, ``split="test"``, or either by position."""
    part = options.get("train", options.get("split", rest[0] if rest else None))
    return part is False or part in ("test", "val")


def _made(name: str, mode: str, size: int, classes: int, training: int, test: int) -> type:
    class Made(torch.utils.data.Dataset[Any]):
        def __init__(self, root: Any = "", *rest: Any, **options: Any) -> None:
            samples = test if _tests(rest, options) else training
            self.transform = options.get("transform")
            self.target_transform = options.get("target_transform")
            self.classes = [str(number) for number in range(classes)]
            self.class_to_idx = {label: index for index, label in enumerate(self.classes)}
            labels = [index % classes for index in range(samples)]
            self.targets: Any = torch.tensor(labels) if mode == "L" else labels
            channels = (samples, size, size) if mode == "L" else (samples, size, size, 3)
            self.data = torch.zeros((), dtype=torch.uint8).expand(channels)
            self.samples = self.imgs = [("made-up", target) for target in labels]

        def __len__(self) -> int:
            return len(self.targets)

        def __getitem__(self, index: int) -> Any:
            from PIL import Image

            image: Any = Image.new(mode, (size, size))
            target = index % classes
            if self.transform is not None:
                image = self.transform(image)
            return image, self.target_transform(target) if self.target_transform is not None else target

    Made.__name__ = Made.__qualname__ = name
    return Made
