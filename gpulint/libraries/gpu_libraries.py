"""What imports and names in Python code say about GPUs: libraries, and the ways to use several at once."""

from __future__ import annotations

import enum
import re

from gpulint import regex


class Approach(enum.Enum):
    """How the work gets onto more than one GPU."""

    ONE_PROCESS = "one process drives all GPUs"
    PER_PROCESS = "one process per GPU"
    SPAWN = "the program starts its processes itself"
    MODEL = "the model is split over GPUs"
    FRAMEWORK = "a framework decides"


GPU_LIBRARIES = frozenset(
    """torch torchvision torchaudio torchtext tensorflow keras jax flax haiku optax equinox cupy cudf cuml cugraph
    cuspatial cuvs rmm raft_dask dask_cuda dask_cudf pytorch_lightning lightning transformers accelerate
    deepspeed mindspore paddle onnxruntime tensorrt tensorrt_llm vllm sglang diffusers peft trl bitsandbytes
    fastai torch_geometric dgl mxnet gluoncv detectron2 mmcv mmdet ultralytics timm sentence_transformers pycuda
    nvidia cuda triton composer colossalai fairseq espnet speechbrain nemo whisper open_clip stable_baselines3
    sb3_contrib rllib ray horovod catalyst ignite monai kornia gpytorch botorch pyro numpyro spacy flair easyocr
    paddleocr llama_cpp faiss warp taichi chainer theano jittor oneflow tinygrad thunder lightning_fabric
    torchtune axolotl unsloth xformers flash_attn apex megatron segmentation_models_pytorch""".split()
)
"""Top-level modules whose programs may well run on a GPU."""
SOMETIMES = frozenset({"xgboost", "lightgbm", "catboost", "numba", "polars", "cv2"})
"""Modules that use a GPU only when told to."""
CPU_ONLY = frozenset(
    """numpy pandas scipy sklearn requests yaml tqdm matplotlib seaborn joblib PIL boto3 botocore google azure
    click flask fastapi uvicorn pyarrow nltk gensim statsmodels networkx sqlalchemy psycopg2 openpyxl lxml bs4
    psutil pydantic rich typer tabulate dotenv simplejson ujson loguru absl fire h5py soundfile setuptools
    urllib3 httpx aiohttp redis pymongo plotly jinja2 markdown kubernetes minio s3fs gcsfs fsspec pytz dateutil
    six aeon imblearn sktime tsfresh lifelines hydra omegaconf attr attrs toml tomli orjson regex sympy""".split()
)
HINT = regex.compile(r"cuda|gpu|device|nvidia|rocm|opencl|deep_learning", re.IGNORECASE)
OPAQUE = regex.compile(
    r"\b(?:subprocess|ctypes|Popen|cffi|os\.system|importlib|__import__|exec|execv\w*|spawn\w*|instantiate)\b"
)
"""With one of these words a program may run anything."""

TOKENS: dict[str, Approach] = {
    **dict.fromkeys(
        """DataParallel data_parallel MirroredStrategy multi_gpu_model pmap pjit shard_map NamedSharding
    PositionalSharding CentralStorageStrategy OneDeviceStrategy LocalCUDACluster start_multi_process_pool
    all_gpus MultiWorkerMirroredStrategy""".split(),
        Approach.ONE_PROCESS,
    ),
    **dict.fromkeys(
        """DistributedDataParallel FullyShardedDataParallel FSDP fully_shard init_process_group horovod hvd Accelerator
    deepspeed init_distributed smdistributed bagua initialize_distributed auto_model
    ParameterServerStrategy init_distributed_mode distributed_init LOCAL_RANK local_rank SLURM_LOCALID
    WORLD_SIZE init_parallel_env fleet setup_distributed KVStore""".split(),
        Approach.PER_PROCESS,
    ),
    **dict.fromkeys(
        """spawn start_processes notebook_launcher elastic_launch launch_agent TorchTrainer ScalingConfig
    TorchDistributor multiprocessing ProcessPoolExecutor RayStrategy Pool tune num_gpus placement_group""".split(),
        Approach.SPAWN,
    ),
    **dict.fromkeys(
        """device_map tensor_parallel_size tensor_parallel pipeline_parallel pipeline_parallel_size parallelize tp_plan
    init_device_mesh DeviceMesh tensor_model_parallel_size infer_auto_device_map dispatch_model PipelineParallel
    load_checkpoint_and_dispatch tp_size device_mesh world_size tensor_parallelism""".split(),
        Approach.MODEL,
    ),
    **dict.fromkeys(
        """Trainer TrainingArguments Fabric LightningCLI distrib_ctx distributed_context Runner EngineArgs LLM
    DistributedStrategy DefaultTrainer""".split(),
        Approach.FRAMEWORK,
    ),
}
FRAMEWORKS = regex.compile(r"\w*(?:Trainer|TrainingArguments)$")
SECOND_DEVICE = regex.compile(
    r"""cuda:(?:[1-9]|\{|%)|\.cuda\((?:[1-9]|device=[1-9])|gpu:[1-9]|cuda\(?["']?, ?[1-9]|xla:""", re.IGNORECASE
)
WHOLE_ON_ONE = regex.compile(r"""device_map\s*=\s*\{\s*(?:""|'')\s*:|device_map\s*=\s*["']cuda(?::0)?["']""")
PLAIN_COMMANDS = frozenset(
    """echo printf cd ls pwd mkdir rm cp mv cat touch export set source . module conda pip pip3 apt apt-get true
    false : test [ [[ exit date hostname env sleep wait chmod ln tar unzip gzip wget curl git aws gsutil gcloud
    rsync sort head tail grep sed awk tee find du df ulimit unset local declare shopt trap nvidia-smi nproc
    which uname whoami id hostnamectl uptime free lscpu printenv scontrol squeue sinfo sacct read
    let shift return eval break continue if then fi for do done""".split()
)
"""Shell commands that compute nothing."""
