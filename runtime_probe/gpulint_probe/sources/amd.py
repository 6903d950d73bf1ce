"""AMD's GPUs through amdsmi, the Python package that comes with ROCm.

https://rocm.docs.amd.com/projects/amdsmi/en/latest/reference/amdsmi-py-api.html
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from typing import Any

from gpulint_probe.recording import GpuInfo, GpuSample
from gpulint_probe.sources.base import SourceUnavailable, Troubled, unseen
from gpulint_probe.sources.selection import is_wanted

_MIB = 1 << 20


class AmdSource(Troubled):
    """All wanted AMD GPUs. ``gfx_activity`` says, like NVIDIA's GPU-Util, that something ran: it is coarse."""

    name = "amd"

    def __init__(self, wanted: list[str] | None) -> None:
        """Raises SourceUnavailable."""
        super().__init__()
        try:
            import amdsmi
        except (ImportError, KeyError, OSError) as error:  # the package looks for ROCm while it is imported
            raise SourceUnavailable(f"AMD: amdsmi cannot be imported ({error})") from error
        self._smi: Any = amdsmi
        self._told: set[str] = set()
        self._handles: list[Any] = []
        self.gpus: list[GpuInfo] = []
        try:
            amdsmi.amdsmi_init(amdsmi.AmdSmiInitFlags.INIT_AMD_GPUS)
            handles = amdsmi.amdsmi_get_processor_handles()
        except amdsmi.AmdSmiException as error:
            raise SourceUnavailable(f"AMD: {error}") from error
        for index, handle in enumerate(handles):
            uuid = str(self._ask(amdsmi.amdsmi_get_gpu_device_uuid, handle) or "")
            if not is_wanted(wanted, index, uuid):
                continue
            name = self._figure(self._ask(amdsmi.amdsmi_get_gpu_asic_info, handle), "market_name", str) or "AMD GPU"
            total = self._figure(self._ask(amdsmi.amdsmi_get_gpu_vram_usage, handle), "vram_total", int) or 0
            self.gpus.append(GpuInfo(len(self.gpus), uuid, name, total * _MIB, vendor="amd"))
            self._handles.append(handle)
        if not self.gpus:
            self.close()
            raise SourceUnavailable("AMD: no GPU of the job")
        self.blind_spots = unseen(self.sample(()))

    def sample(self, pids: Collection[int], *, final: bool = False) -> list[GpuSample]:
        return [self._sample(gpu.index, handle, pids) for gpu, handle in zip(self.gpus, self._handles, strict=True)]

    def close(self) -> None:
        with contextlib.suppress(self._smi.AmdSmiException):  # nothing is left to be given back
            self._smi.amdsmi_shut_down()

    def _sample(self, gpu: int, handle: Any, pids: Collection[int]) -> GpuSample:
        smi, figure = self._smi, self._figure
        activity = self._ask(smi.amdsmi_get_gpu_activity, handle)
        busy, memory_busy = figure(activity, "gfx_activity"), figure(activity, "umc_activity")
        used = figure(self._ask(smi.amdsmi_get_gpu_vram_usage, handle), "vram_used", int)
        power = self._ask(smi.amdsmi_get_power_info, handle)
        energy = self._ask(smi.amdsmi_get_energy_count, handle)
        counted = figure(energy, "energy_accumulator")
        unit = figure(energy, "counter_resolution")
        clock = self._ask(smi.amdsmi_get_clock_info, handle, smi.AmdSmiClkType.GFX)
        heat = self._ask(
            smi.amdsmi_get_temp_metric, handle, smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
        )
        return GpuSample(
            time_s=time.time(),
            gpu=gpu,
            utilization=None if busy is None else busy / 100,
            dram_activity=None if memory_busy is None else memory_busy / 100,
            memory_used_bytes=None if used is None else used * _MIB,
            process_memory_bytes=self._process_memory(handle, pids),
            power_w=figure(power, "current_socket_power") or figure(power, "average_socket_power"),
            # The resolution is in microjoules.
            energy_j=None if counted is None or unit is None else counted * unit / 1e6,
            temperature_c=float(heat) if isinstance(heat, (int, float)) else None,
            clock_mhz=figure(clock, "clk"),
        )

    def _process_memory(self, handle: Any, pids: Collection[int]) -> int | None:
        found = None
        for process in self._ask(self._smi.amdsmi_get_gpu_process_list, handle) or ():
            if self._figure(process, "pid", int) in pids:
                found = (found or 0) + (self._figure(process.get("memory_usage"), "vram_mem", int) or 0)
        return found

    def _ask(self, question: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """The answer, or None with a note for the first failure of its kind."""
        try:
            return question(handle, *arguments)
        except self._smi.AmdSmiException as error:
            trouble = f"AMD: {question.__name__.removeprefix('amdsmi_get_')}: {error}"
            if trouble not in self._told:
                self._told.add(trouble)
                self.trouble(trouble)
            return None

    @staticmethod
    def _figure(answer: Any, key: str, kind: type[Any] = float) -> Any:
        """A number of an answer; what a card does not measure is the text "N/A"."""
        value = answer.get(key) if isinstance(answer, dict) else None
        return None if value is None or value == "N/A" else kind(value)
