"""Published estimators, each by its formula, to compare the simulation with."""

from __future__ import annotations

from gpulint_probe.estimator.errors import EstimateError
from gpulint_probe.estimator.features import model_features
from gpulint_probe.estimator.job import Job
from gpulint_probe.estimator.simulate import simulate
from gpulint_probe.estimator.step import trace_training
from gpulint_probe.estimator.trace import Call

NOWHERE = Call("", "", "")
MIB = 1 << 20


def estimate(method: str, job: Job, gpumemnet_model: str = "") -> int:
    """Bytes by ``method``: horus, deepspeed, faketensor or gpumemnet. Raises EstimateError."""
    if method == "horus":
        return horus(job)
    if method == "deepspeed":
        return deepspeed(job)
    if method == "faketensor":
        return faketensor(job)
    from gpulint_probe.estimator.gpumemnet import predict

    if not gpumemnet_model:
        raise EstimateError("--method gpumemnet needs --gpumemnet-model FILE, as benchmarks/estimator/train_gpumemnet.py writes it")
    return predict(gpumemnet_model, job)


def horus(job: Job) -> int:
    """Horus (Yeung et al., TPDS 2022): ((B*A + P) + B*G) * 4 bytes, with A activations per sample, P parameters, G = P gradients.

    The gradients grow with the batch, as published; the constant that the paper adds for the framework is left to the user.
    """
    features = model_features(job)
    return 4 * (job.batch_size * features.activations + features.parameters + job.batch_size * features.parameters)


def deepspeed(job: Job) -> int:
    """DeepSpeed's ``estimate_zero{2,3}_model_states_mem_needs`` without offload: model states alone, no activations.

    Stage 2 (also for other strategies): 4 P + 16 P / N bytes. Stage 3 and FSDP: 4 L + 18 P / N, L the largest layer.
    """
    features = model_features(job)
    if job.strategy in ("zero3", "fsdp"):
        return 4 * features.largest_layer + 18 * features.parameters // job.gpus
    return 4 * features.parameters + 16 * features.parameters // job.gpus


def accelerate(job: Job) -> int:
    """``accelerate estimate-memory`` for Adam: four times the parameters in float32."""
    return 16 * model_features(job).parameters


def torchinfo(job: Job) -> int:
    """torchinfo's summary: parameters + twice the outputs of the layers (forward and backward)."""
    features = model_features(job)
    return 4 * (features.parameters + 2 * job.batch_size * features.activations)


def faketensor(job: Job) -> int:
    """Plain live bytes of forward and backward over fake tensors: no optimizer, allocator, workspace or context."""
    trace = trace_training(job, job.batch_size, iterations=1)
    live = peak = 0
    sizes: dict[int, int] = {}
    for key, size, call in trace.events:
        if trace.calls[call].phase == "optimizer":
            break
        if size < 0:
            live -= sizes.pop(key, 0)
        elif key > 0:
            sizes[key] = size
            live += size
        peak = max(peak, live)
    return peak


def live_bytes(job: Job) -> int:
    """Live bytes of the whole simulated step, without allocator and workspaces."""
    return simulate(trace_training(job, job.batch_size)).allocated
