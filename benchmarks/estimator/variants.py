"""All estimates of one job from one trace: the published baselines and the stages of the simulation."""

from __future__ import annotations

import time
from dataclasses import replace

from gpulint_probe.estimator import Request, baselines
from gpulint_probe.estimator.allocator import OutOfMemory, replay
from gpulint_probe.estimator.api import build_job, trace_job
from gpulint_probe.estimator.features import Features, model_features
from gpulint_probe.estimator.job import Job
from gpulint_probe.estimator.simulate import simulate

MIB = 1 << 20
# Name and whether a constant for the context is fitted to it on the other models.
VARIANTS = {
    "Horus, published formula": False,
    "DeepSpeed + c": True,
    "accelerate + c": True,
    "torchinfo + c": True,
    "GPUMemNet, published class or trained here": False,
    "FakeTensor, published formula": False,
    "FakeTensor + c": True,
    "live bytes of the step + c": True,
    "allocator replay + c": True,
    "simulate (the default) + c": True,
}
GPUMEMNET = "GPUMemNet, published class or trained here"
DEFAULT = "simulate (the default) + c"


def estimates(job: Job, capacity_mib: int | None = None, features: Features | None = None) -> dict[str, float]:
    """MiB by variant, and CPU "seconds" of the probe (trace and replay). What exceeds ``capacity_mib`` is put there."""
    start = time.process_time()
    trace = trace_job(job, job.batch_size)
    try:
        simulated = simulate(trace, capacity_mib * MIB if capacity_mib else None).reserved
    except OutOfMemory:
        simulated = (capacity_mib or 0) * MIB
    seconds = time.process_time() - start
    events = [(key, size) for key, size, _ in trace.events if key > 0]
    bare = replay(events)
    features = features or model_features(job)
    fake = baselines.live_before_optimizer(trace)
    values = {
        "Horus, published formula": baselines.horus(features, job.batch_size),
        "DeepSpeed + c": baselines.deepspeed(features),
        "accelerate + c": baselines.accelerate(features),
        "torchinfo + c": baselines.torchinfo(features, job.batch_size),
        "FakeTensor, published formula": fake,
        "FakeTensor + c": fake,
        "live bytes of the step + c": bare.allocated,
        "allocator replay + c": bare.reserved,
        DEFAULT: simulated,
    }
    return {name: size / MIB for name, size in values.items()} | {"seconds": seconds}


def estimates_of(request: Request, batches: list[int], capacity_mib: int | None = None) -> dict[str, dict[str, float]]:
    """Estimates by batch size (as text, for JSON), building the model once."""
    job = build_job(request)
    features = model_features(job)
    return {str(size): estimates(replace(job, batch_size=size), capacity_mib, features) for size in batches}
