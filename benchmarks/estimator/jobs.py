"""The jobs of the thesis' Table 6.2, as their public scripts (itu-rad/CARMA, ``workloads/``) set them up.

Factories for ``gpulint estimate``; transformers get random weights from a configuration, nothing is downloaded.
"""

from __future__ import annotations

from typing import Any

import torch
from gpulint_probe.estimator import Request
from torch import nn


def bert_base() -> nn.Module:
    """BertForMaskedLM with the cased vocabulary."""
    return _bert()


def bert_large() -> nn.Module:
    """As bert_base, 24 layers of 1024."""
    return _bert(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)


def xlnet_base() -> nn.Module:
    """XLNetForSequenceClassification of the published base size."""
    return _xlnet(d_model=768, n_layer=12, n_head=12, d_inner=3072)


def xlnet_large() -> nn.Module:
    """XLNetForSequenceClassification of the published large size."""
    return _xlnet(d_model=1024, n_layer=24, n_head=16, d_inner=4096)


def gpt2_large() -> nn.Module:
    """GPT-2 large under ``nn.DataParallel``: one GPU computes its share and gathers the outputs of both."""
    import transformers

    config = transformers.GPT2Config(vocab_size=50257, n_embd=1280, n_layer=36, n_head=20)
    return _GatheringReplica(transformers.GPT2LMHeadModel(config))


class _GatheringReplica(nn.Module):
    """GPU 0 of two in DataParallel: every tensor that the model returns is gathered at twice its batch."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> Any:
        outputs = self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)
        cache = [(layer.keys, layer.values) for layer in outputs.past_key_values.layers]
        gathered = [torch.cat([tensor, tensor]) for pair in cache for tensor in pair]
        return outputs.loss, torch.cat([outputs.logits, outputs.logits]), gathered


def _bert(**options: Any) -> nn.Module:
    import transformers

    model: nn.Module = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=28996, **options))
    return model


def _xlnet(**options: Any) -> nn.Module:
    import transformers

    model: nn.Module = transformers.XLNetForSequenceClassification(
        transformers.XLNetConfig(vocab_size=32000, **options)
    )
    return model


_IMAGENET = {
    "mobilenet_v2": ("torchvision:mobilenet_v2", "3x224x224"),
    "resnet50": ("torchvision:resnet50", "3x224x224"),
    "efficientnet_b0": ("torchvision:efficientnet_b0", "3x224x224"),
    "vgg16": ("torchvision:vgg16", "3x224x224"),
    "inception": ("torchvision:inception_v3", "3x299x299"),
    "Xception": ("timm:legacy_xception", "3x224x224"),
}
_CIFAR = {
    "efficientnet_b0": "timm:efficientnet_b0",
    "resnet18": "timm:resnet18",
    "resnet34": "timm:resnet34",
    "S_mobilenetv3": "timm:mobilenetv3_small_100",
}
_TEXT = {"BERT_base", "BERT_large", "xlnet_base", "xlnet_large", "gpt2_large"}
IMAGENET_MODELS = tuple(_IMAGENET)


def thesis_request(model: str, dataset: str, batch_size: int) -> Request:
    """The job of one row of Table 6.2. Raises KeyError for a row that is not in it."""
    if dataset == "ImageNet":
        target, shape = _IMAGENET[model]
        arguments = {"aux_logits": False} if model == "inception" else {}
        return Request(target, (shape,), batch_size, "adam", model_args=arguments)
    if dataset == "cifar100":
        return Request(_CIFAR[model], ("3x32x32",), batch_size, "adamw", model_args={"num_classes": 100})
    if model not in _TEXT:
        raise KeyError(model)
    # DataParallel splits the batch of GPT-2 over two GPUs; the XLNet rows state the batch of one GPU.
    size = batch_size // 2 if model == "gpt2_large" else batch_size
    return Request(f"{__file__}:{model.lower()}", ("tokens:512",), size, "adamw")
