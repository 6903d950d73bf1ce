"""GPU Performance Monitoring of NVML: what the processors did between two samples; for Hopper and newer.

https://docs.nvidia.com/deploy/nvml-api/group__nvmlGpmFunctions.html
"""

from __future__ import annotations

import contextlib
import math
from types import ModuleType
from typing import Any

_MIB = float(1 << 20)


class Gpm:
    """Two sample buffers of one GPU or MIG instance, used in turn."""

    def __init__(self, nvml: ModuleType, handle: Any, gpu_instance: int | None) -> None:
        """Take the first sample. Raises NVMLError where the GPU has no GPM or the user no right to it."""
        self._nvml = nvml
        self._instance = gpu_instance
        # An instance is read through its GPU.
        self._device = handle if gpu_instance is None else nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        if not nvml.nvmlGpmQueryDeviceSupport(self._device).isSupportedDevice:
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        # Percentages become ratios, MiB/s bytes per second.
        self._metrics = {
            "sm_activity": (nvml.NVML_GPM_METRIC_SM_UTIL, 0.01),
            "sm_occupancy": (nvml.NVML_GPM_METRIC_SM_OCCUPANCY, 0.01),
            "tensor_activity": (nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, 0.01),
            "dram_activity": (nvml.NVML_GPM_METRIC_DRAM_BW_UTIL, 0.01),
            "pcie_rx_bytes_s": (nvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, _MIB),
            "pcie_tx_bytes_s": (nvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, _MIB),
            "nvlink_rx_bytes_s": (nvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, _MIB),
            "nvlink_tx_bytes_s": (nvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, _MIB),
        }
        self._before, self._after = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        try:
            self._take(self._before)
        except nvml.NVMLError:
            self.close()
            raise

    def read(self) -> dict[str, float | None]:
        """Means since the last call, by the names of GpuSample's fields. Raises NVMLError."""
        nvml = self._nvml
        self._take(self._after)
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(self._metrics)
        request.sample1, request.sample2 = self._before, self._after
        for slot, (metric, _) in enumerate(self._metrics.values()):
            request.metrics[slot].metricId = metric
        # Samples that are too close fail; the next call starts from the later one all the same.
        self._before, self._after = self._after, self._before
        nvml.nvmlGpmMetricsGet(request)
        values: dict[str, float | None] = {}
        for slot, (name, (_, factor)) in enumerate(self._metrics.items()):
            entry = request.metrics[slot]
            seen = entry.nvmlReturn == nvml.NVML_SUCCESS and math.isfinite(entry.value)
            values[name] = entry.value * factor if seen else None
        return values

    def close(self) -> None:
        """Free the buffers."""
        for sample in (self._before, self._after):
            with contextlib.suppress(self._nvml.NVMLError):  # a lost GPU has nothing to free
                self._nvml.nvmlGpmSampleFree(sample)

    def _take(self, sample: Any) -> None:
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(self._device, sample)
        else:
            self._nvml.nvmlGpmMigSampleGet(self._device, self._instance, sample)
