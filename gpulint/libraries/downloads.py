"""What fetches data or weights from outside, by library; only names, nothing is decided here."""

from __future__ import annotations

import re

from gpulint import regex

HUB = "the Hugging Face hub"

PRETRAINED_PARAMETERS = ("pretrained_model_name_or_path", "model_name_or_path", "model_name", "model_id", "repo_id")
"""Other names that ``from_pretrained`` of one library or another has for its identifier."""

LOCAL_BUILDERS = frozenset(
    (
        "csv json text parquet arrow pandas xml sql webdataset imagefolder audiofolder videofolder "
        "pdffolder generator tsv jsonl"
    ).split()
)
"""Data set builders that read files instead of the hub."""

KERAS_DATA_SETS = (
    "tensorflow.keras.datasets.", "keras.datasets.", "tensorflow.contrib.keras.datasets.", "keras_core.datasets.",
    "tf_keras.datasets.",
)  # fmt: skip
KERAS_MODELS = (
    "tensorflow.keras.applications.", "keras.applications.", "keras.api.applications.", "keras_core.applications.",
    "tf_keras.applications.",
)  # fmt: skip

NOT_FACTORIES = ("list_", "is_", "patch_", "replace_", "adapt_", "convert_", "get_preprocessing")
"""How functions of those packages start that make no model."""
PRETRAINED = (
    "torchvision.models",
    "timm.",
    "torchvision.models.segmentation",
    "segmentation_models_pytorch.",
    "torchaudio.models",
    "facenet_pytorch.",
    "pretrainedmodels.",
    "pytorchcv.",
    "open_clip.",
    "torchxrayvision.",
    "geffnet.",
    "resnest.",
    "kornia.feature.",
)
"""Prefixes of model factories that take ``pretrained=`` or ``weights=``."""

DATA_SUFFIX = (
    ".zip .tar .tar.gz .tgz .gz .bz2 .xz .7z .csv .tsv .json .jsonl .txt .parquet .npz .npy .h5 "
    ".hdf5 .pkl .pt .pth .bin "
    ".safetensors .onnx .ckpt .mat .arrow .tfrecord .lmdb"
).split()
LABELS = regex.compile(r"(class|label|synset|categor)\w*([-_.]\w+)*\.(txt|json|names)$|\.names$", re.IGNORECASE)
"""Names of classes, a file of some kilobytes."""
