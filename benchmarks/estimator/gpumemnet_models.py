"""Rebuild the synthetic networks of the GPUMemNet tables from the layer lists in their rows.

A row's file name holds the hyper-parameters and ``Activations-Params`` the layers in execution order, each with its
output elements per sample and its parameters. Pooling is not listed: it stands wherever the next convolution's output
is half as wide. Residual and dense blocks are known from the architecture's name.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "ReLU": nn.ReLU, "LeakyReLU": nn.LeakyReLU, "PReLU": nn.PReLU, "ELU": nn.ELU, "SELU": nn.SELU, "GELU": nn.GELU,
    "Tanh": nn.Tanh, "SiLU": nn.SiLU, "Softplus": nn.Softplus, "Mish": nn.Mish, "Identity": nn.Identity,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Network:
    """A rebuilt network on the meta device, the shape of a sample, classes and batch of its run."""

    model: nn.Module
    sample: tuple[int, ...]
    classes: int
    batch_size: int


def mlp(row: Mapping[str, str]) -> Network:
    """The network of a row of gpumemnet_mlp.csv."""
    name = row["Filename"]
    width = inputs = _number("input", name)
    layers: list[nn.Module] = []
    for kind, size, _ in ast.literal_eval(row["Activations-Params"]):
        if kind == "linear":
            layers.append(nn.Linear(width, size))
            width = size
        elif kind == "batch_normalization":
            layers.append(nn.BatchNorm1d(width))
        elif kind == "dropout":
            layers.append(nn.Dropout(0.3))
        elif kind == "Softmax":
            layers.append(nn.Softmax(dim=1))
        elif kind in _ACTIVATIONS:
            layers.append(_ACTIVATIONS[kind]())
        elif kind != "Sigmoid":
            raise ValueError(f"unknown layer {kind}")
    return Network(nn.Sequential(*layers), (inputs,), width, _number("batch", name))


def cnn(row: Mapping[str, str]) -> Network:
    """The network of a row of gpumemnet_cnn.csv."""
    name = row["Filename"]
    channels, size = _number("input_channels", name), _number("input_size", name)
    architecture = re.search(r"arch:([a-z_]+)_base", name)
    assert architecture is not None
    convs = _convolutions(ast.literal_eval(row["Activations-Params"]), channels, size, architecture[1])
    build = {"residual": _residual, "dense": _dense}.get(architecture[1], _plain)
    classes = _number("num_classes", name)
    last = convs[-1].channels_after
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, classes), nn.Softmax(dim=1)]
    return Network(nn.Sequential(*build(convs, size), *head), (channels, size, size), classes, _number("batch", name))


@dataclass(slots=True)
class _Conv:
    inputs: int
    outputs: int
    kernel: int
    size: int
    rest: list[nn.Module]
    channels_after: int = 0

    def module(self, stride: int = 1) -> nn.Module:
        padding = 1 if self.kernel == 3 else 0
        return nn.Sequential(nn.Conv2d(self.inputs, self.outputs, self.kernel, stride, padding), *self.rest)


def _convolutions(layers: list[tuple[str, int, int]], channels: int, size: int, architecture: str) -> list[_Conv]:
    convs: list[_Conv] = []
    width = channels  # channels that reach the next convolution
    block_input = channels
    for kind, elements, parameters in layers:
        if kind == "conv2d":
            inputs = width
            if architecture == "residual" and convs and convs[-1].kernel == 1:
                inputs = block_input  # the convolution after a shortcut reads the block's input
            conv = _solve(inputs, elements, parameters)
            if architecture == "residual" and conv.kernel == 1:
                block_input = inputs
            convs.append(conv)
            width = width + conv.outputs if architecture == "dense" and conv.kernel == 3 else conv.outputs
            conv.channels_after = width
        elif kind == "batchnorm2d":
            convs[-1].rest.append(nn.BatchNorm2d(convs[-1].outputs))
        elif kind == "dropout":
            convs[-1].rest.append(nn.Dropout(0.3))
        elif kind in _ACTIVATIONS:
            convs[-1].rest.append(_ACTIVATIONS[kind]())
    return convs


def _solve(inputs: int, elements: int, parameters: int) -> _Conv:
    for kernel in (3, 1):
        outputs, remainder = divmod(parameters, kernel * kernel * inputs + 1)
        if outputs and not remainder and elements % outputs == 0:
            side = math.isqrt(elements // outputs)
            if side * side * outputs == elements:
                return _Conv(inputs, outputs, kernel, side, [])
    raise ValueError(f"no convolution of {inputs} channels has {parameters} parameters and {elements} outputs")


def _plain(convs: list[_Conv], size: int) -> list[nn.Module]:
    modules: list[nn.Module] = []
    for conv in convs:
        if conv.size < size:
            modules.append(nn.MaxPool2d(2, 2))
        modules.append(conv.module())
        size = conv.size
    return modules


class _ResidualBlock(nn.Module):
    def __init__(self, shortcut: nn.Module, body: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        residual = self.shortcut(x)
        return self.body(x) + residual


def _residual(convs: list[_Conv], size: int) -> list[nn.Module]:
    modules: list[nn.Module] = []
    position = 0
    while position < len(convs):
        shortcut: nn.Module = nn.Identity()
        stride = 1
        if convs[position].kernel == 1:
            stride = 2 if convs[position].size < size else 1
            shortcut = convs[position].module(stride)
            position += 1
        first, second = convs[position : position + 2]
        modules.append(_ResidualBlock(shortcut, nn.Sequential(first.module(stride), second.module())))
        size = second.size
        position += 2
    return modules


class _DenseBlock(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = [x]
        for layer in self.layers:
            new = layer(torch.cat(features, 1))
            features.append(new)
        return torch.cat(features, 1)


def _dense(convs: list[_Conv], size: int) -> list[nn.Module]:
    modules: list[nn.Module] = []
    block: list[nn.Module] = []
    for conv in convs:
        if conv.kernel == 1:
            modules.append(nn.Sequential(conv.module(), nn.AvgPool2d(2, 2)))
            continue
        block.append(conv.module())
        if len(block) == 4:
            modules.append(_DenseBlock(block))
            block = []
    return modules


def _number(key: str, name: str) -> int:
    match = re.search(rf"(?:^|_){key}:(\d+)", name)
    if match is None:
        raise ValueError(f"{name} has no {key}")
    return int(match[1])
