"""What fetches data or weights from outside, by library; only names, nothing is decided here."""

from __future__ import annotations

import re

from gpulint import regex

HUB = "the Hugging Face hub"

HUB_CALLS: dict[str, tuple[tuple[str, ...], tuple[str, int | None], str]] = {
    "load_dataset": (("datasets.", "nlp."), ("path", 0), "data"),
    "load_dataset_builder": (("datasets.",), ("path", 0), "data"),
    "load_metric": (("datasets.", "nlp."), ("path", 0), "metric"),
    "load": (("evaluate.",), ("path", 0), "metric"),
    "snapshot_download": (("huggingface_hub.", "modelscope."), ("repo_id", 0), "weights"),
    "hf_hub_download": (("huggingface_hub.",), ("repo_id", 0), "weights"),
    "pipeline": (("transformers.",), ("model", 1), "weights"),
    "SentenceTransformer": (("sentence_transformers.",), ("model_name_or_path", 0), "weights"),
    "CrossEncoder": (("sentence_transformers.",), ("model_name", 0), "weights"),
    "LLM": (("vllm.",), ("model", 0), "weights"),
    "from_hparams": (("speechbrain.",), ("source", None), "weights"),
    "load_lora_weights": (("",), ("pretrained_model_name_or_path_or_dict", 0), "weights"),
    "load_adapter": (("",), ("peft_model_id", 0), "weights"),
    "from_pretrained": (("",), ("pretrained_model_name_or_path", 0), "weights"),
}
"""Last name -> (prefixes of the qualified name, (parameter, position) of the identifier, what it fetches)."""

PRETRAINED_PARAMETERS = ("pretrained_model_name_or_path", "model_name_or_path", "model_name", "model_id", "repo_id")
"""Other names that ``from_pretrained`` of one library or another has for its identifier."""

LOCAL_BUILDERS = frozenset(
    (
        "csv json text parquet arrow pandas xml sql webdataset imagefolder audiofolder videofolder "
        "pdffolder generator tsv jsonl"
    ).split()
)
"""Data set builders that read files instead of the hub."""

ALWAYS: dict[str, tuple[str, str]] = {
    "nltk.download": ("nltk.org", "data"),
    "gdown.download": ("Google Drive", "data"),
    "gdown.download_folder": ("Google Drive", "data"),
    "gdown.cached_download": ("Google Drive", "data"),
    "wget.download": ("the internet", "data"),
    "torch.hub.load": ("GitHub", "weights"),
    "torch.hub.download_url_to_file": ("the internet", "weights"),
    "torch.hub.load_state_dict_from_url": ("the internet", "weights"),
    "torch.utils.model_zoo.load_url": ("the internet", "weights"),
    "torchvision.datasets.utils.download_and_extract_archive": ("the internet", "data"),
    "torchvision.datasets.utils.download_url": ("the internet", "data"),
    "torch_geometric.data.download_url": ("the internet", "data"),
    "tensorflow_datasets.load": ("the TFDS mirrors", "data"),
    "tensorflow.keras.utils.get_file": ("the internet", "data"),
    "keras.utils.get_file": ("the internet", "data"),
    "tensorflow_hub.load": ("TensorFlow Hub", "weights"),
    "tensorflow_hub.KerasLayer": ("TensorFlow Hub", "weights"),
    "tensorflow.examples.tutorials.mnist.input_data.read_data_sets": ("the internet", "data"),
    "kagglehub.dataset_download": ("Kaggle", "data"),
    "kagglehub.model_download": ("Kaggle", "weights"),
    "opendatasets.download": ("Kaggle", "data"),
    "gensim.downloader.load": ("the internet", "weights"),
    "spacy.cli.download": ("the spaCy releases", "weights"),
    "whisper.load_model": ("the OpenAI CDN", "weights"),
    "clip.load": ("the OpenAI CDN", "weights"),
    "fastai.data.external.untar_data": ("the fast.ai mirror", "data"),
    "fastai.vision.all.untar_data": ("the fast.ai mirror", "data"),
    "sklearn.datasets.fetch_openml": ("OpenML", "data"),
    "dgl.graphbolt.BuiltinDataset": ("the DGL mirror", "data"),
    "torchtext.vocab.GloVe": ("the internet", "weights"),
    "torchtext.vocab.FastText": ("the internet", "weights"),
    "torchtext.utils.download_from_url": ("the internet", "data"),
}
"""Qualified name -> (where from, what)."""

DATA_SET_MODULES: dict[str, tuple[str, frozenset[str]]] = {
    "torch_geometric.datasets.": (
        "the data set's own server",
        frozenset(
            "FakeDataset FakeHeteroDataset StochasticBlockModelDataset RandomPartitionGraphDataset ExplainerDataset "
            "InfectionDataset BAShapes KarateClub".split()
        ),
    ),
    "torchtext.datasets.": ("the data set's own server", frozenset()),
    "torchtext.legacy.datasets.": ("the data set's own server", frozenset()),
    "dgl.data.": (
        "the DGL mirror",
        frozenset(
            (
                "DGLDataset DGLBuiltinDataset CSVDataset MiniGCDataset BAShapeDataset BACommunityDataset "
                "TreeCycleDataset TreeGridDataset SBMMixtureDataset AsNodePredDataset AsLinkPredDataset "
                "AsGraphPredDataset"
            ).split()
        ),
    ),
    "ogb.nodeproppred.": ("the OGB server", frozenset()),
    "ogb.linkproppred.": ("the OGB server", frozenset()),
    "ogb.graphproppred.": ("the OGB server", frozenset()),
    "ogb.lsc.": ("the OGB server", frozenset()),
    "torch_geometric_temporal.dataset.": ("the data set's own server", frozenset()),
}
"""Packages whose data set classes download silently on first use -> (where from, classes that make their data up)."""

ENDS = {"ogb": "Dataset", "torch_geometric_temporal": "Loader"}
"""How the names of such classes end, where a package has others too."""

NOT_DATA_SETS = frozenset(
    (
        "Evaluator Split load_graphs save_graphs GraphDataLoader transforms utils register_data_args "
        "load_data collate_dgl TranslationDataset TabularDataset LanguageModelingDataset SequenceTaggingDataset"
    ).split()
)

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
)
"""Prefixes of model factories that take ``pretrained=`` or ``weights=``."""

DATA_SUFFIX = (
    ".zip .tar .tar.gz .tgz .gz .bz2 .xz .7z .csv .tsv .json .jsonl .txt .parquet .npz .npy .h5 "
    ".hdf5 .pkl .pt .pth .bin "
    ".safetensors .onnx .ckpt .mat .arrow .tfrecord .lmdb"
).split()
LABELS = regex.compile(r"(class|label|synset|categor)\w*([-_.]\w+)*\.(txt|json|names)$|\.names$", re.IGNORECASE)
"""Names of classes, a file of some kilobytes."""
