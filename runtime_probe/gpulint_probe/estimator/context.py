"""Measure what a process holds on this machine's GPU outside the allocator: context, kernels, library handles."""

from __future__ import annotations

import os

import torch

from gpulint_probe.estimator.errors import EstimateError


def measure_context() -> int:
    """Bytes after a small training step with a convolution and a matrix product. Raises EstimateError without a GPU."""
    if not torch.cuda.is_available():
        raise EstimateError("--context measure needs a GPU that this PyTorch can use")
    model = torch.nn.Sequential(
        torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 8)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(4, 8, 8, 8, device="cuda")).sum().backward()
    optimizer.step()
    torch.cuda.synchronize()
    return max(0, device_bytes() - int(torch.cuda.memory_reserved()))


def device_bytes() -> int:
    """Bytes of the current GPU that this process holds, or all that is used where the driver knows no processes."""
    try:
        import pynvml

        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
            if process.pid == os.getpid() and process.usedGpuMemory:
                return int(process.usedGpuMemory)
    except Exception:  # NVML is a better answer, not a needed one
        pass
    free, total = torch.cuda.mem_get_info()
    return int(total - free)
