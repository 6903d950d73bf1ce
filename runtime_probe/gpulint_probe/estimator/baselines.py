"""Published estimators, each by its formula, to compare the simulation with."""

from __future__ import annotations

from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.features import Features, model_features
from gpulint_probe.estimator.job import Job
from gpulint_probe.estimator.step import trace_training
from gpulint_probe.estimator.trace import Call, Trace

NOWHERE = Call("", "", "")
MIB = 1 << 20


def estimate(method: str, job: Job, gpumemnet_model: str = "") -> int:
    """Bytes by ``method``: horus, deepspeed, faketensor or gpumemnet. Raises EstimateError."""
    if method == "horus":
        return horus(model_features(job), job.batch_size)
    if method == "deepspeed":
        return deepspeed(model_features(job), job.strategy, job.gpus)
    if method == "faketensor":
        return faketensor(job)
    from gpulint_probe.estimator.gpumemnet import predict

    if not gpumemnet_model:
        raise EstimateError(
            "--method gpumemnet needs --gpumemnet-model FILE, as benchmarks/estimator/train_gpumemnet.py writes it"
        )
    return predict(gpumemnet_model, job)


def horus(features: Features, batch_size: int) -> int:
    """Horus (Yeung et al., TPDS 2022): ((B*A + P) + B*G) * 4 bytes; A activations per sample, P parameters, G = P.

    The gradients grow with the batch, as published; the constant that the paper adds for the framework is left to the
    user.
    """
    return 4 * (batch_size * features.activations + features.parameters + batch_size * features.parameters)


def deepspeed(features: Features, strategy: str = "", gpus: int = 1) -> int:
    """DeepSpeed's ``estimate_zero{2,3}_model_states_mem_needs`` without offload: model states alone, no activations.

    Stage 2 (also for other strategies): 4 P + 16 P / N bytes. Stage 3 and FSDP: 4 L + 18 P / N, L the largest layer.
    """
    if strategy in ("zero3", "fsdp"):
        return 4 * features.largest_layer + 18 * features.parameters // gpus
    return 4 * features.parameters + 16 * features.parameters // gpus


def accelerate(features: Features) -> int:
    """``accelerate estimate-memory`` for Adam: four times the parameters in float32."""
    return 16 * features.parameters


def torchinfo(features: Features, batch_size: int) -> int:
    """torchinfo's summary: parameters + twice the outputs of the layers (forward and backward)."""
    return 4 * (features.parameters + 2 * batch_size * features.activations)


def faketensor(job: Job) -> int:
    """Plain live bytes of forward and backward over fake tensors: no optimizer, allocator, workspace or context."""
    return live_before_optimizer(trace_training(job, job.batch_size, iterations=1))


def live_before_optimizer(trace: Trace) -> int:
    """Peak of live bytes before the first optimizer step."""
    live = peak = 0
    sizes: dict[int, int] = {}
    started = False
    for key, size, call in trace.events:
        phase = trace.calls[call].phase
        started = started or phase == "backward"
        if started and phase == "optimizer":
            break
        if size < 0:
            live -= sizes.pop(key, 0)
        elif key > 0:
            sizes[key] = size
            live += size
        peak = max(peak, live)
    return peak
