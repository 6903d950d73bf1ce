"""The AMD source under a played ``amdsmi``, whose answers have the shapes of ROCm's Python reference."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
from gpulint_probe.sources import SourceOptions, SourceUnavailable, open_source
from gpulint_probe.sources.amd import AmdSource

ANSWERS: dict[str, Any] = {
    "amdsmi_init": None,
    "amdsmi_shut_down": None,
    "amdsmi_get_processor_handles": ["first", "second"],
    "amdsmi_get_gpu_asic_info": {"market_name": "AMD Instinct MI300X"},
    "amdsmi_get_gpu_vram_usage": {"vram_total": 196592, "vram_used": 1024},
    "amdsmi_get_gpu_activity": {"gfx_activity": 75, "umc_activity": 50, "mm_activity": "N/A"},
    "amdsmi_get_power_info": {"current_socket_power": "N/A", "average_socket_power": 140},
    "amdsmi_get_energy_count": {"energy_accumulator": 2_000_000, "counter_resolution": 15.3, "timestamp": 1},
    "amdsmi_get_clock_info": {"clk": 2100, "min_clk": 132, "max_clk": 2100},
    "amdsmi_get_temp_metric": 45,
    "amdsmi_get_gpu_process_list": [{"pid": 42, "memory_usage": {"vram_mem": 500}}, {"pid": 1, "memory_usage": {}}],
}


class _AmdSmiException(Exception):
    pass


@pytest.fixture
def amdsmi(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts in place a module with ANSWERS, some of them changed; a changed one that is an exception is raised."""

    def install(**changed: Any) -> None:
        module = ModuleType("amdsmi")

        def function(name: str, answer: Any) -> Callable[..., Any]:
            def asked(*_: Any) -> Any:
                if isinstance(answer, Exception):
                    raise answer
                return answer

            asked.__name__ = name
            return asked

        for name, answer in (ANSWERS | changed).items():
            setattr(module, name, function(name, answer))
        module.amdsmi_get_gpu_device_uuid = lambda handle: f"uuid-of-{handle}"  # type: ignore[attr-defined]
        module.AmdSmiException = _AmdSmiException  # type: ignore[attr-defined]
        for name, members in {
            "AmdSmiInitFlags": ["INIT_AMD_GPUS"],
            "AmdSmiClkType": ["GFX"],
            "AmdSmiTemperatureType": ["HOTSPOT"],
            "AmdSmiTemperatureMetric": ["CURRENT"],
        }.items():
            setattr(module, name, Enum(name, members))
        monkeypatch.setitem(sys.modules, "amdsmi", module)

    return install


def test_figures_come_in_our_units(amdsmi: Callable[..., None]) -> None:
    amdsmi()
    source = AmdSource(None)
    assert [(gpu.uuid, gpu.name, gpu.memory_bytes, gpu.vendor) for gpu in source.gpus] == [
        ("uuid-of-first", "AMD Instinct MI300X", 196592 << 20, "amd"),
        ("uuid-of-second", "AMD Instinct MI300X", 196592 << 20, "amd"),
    ]
    sample = source.sample({42})[1]
    assert sample.gpu == 1
    assert (sample.utilization, sample.dram_activity, sample.sm_activity) == (0.75, 0.5, None)
    assert (sample.memory_used_bytes, sample.process_memory_bytes) == (1 << 30, 500)
    assert sample.power_w == 140
    assert sample.energy_j == pytest.approx(30.6)
    assert (sample.temperature_c, sample.clock_mhz) == (45, 2100)
    assert any("coarse" in text for text in source.blind_spots)


def test_only_the_jobs_gpus_count(amdsmi: Callable[..., None]) -> None:
    amdsmi()
    assert [gpu.uuid for gpu in AmdSource(["1"]).gpus] == ["uuid-of-second"]


def test_what_a_card_does_not_answer_is_not_seen_and_said_once(amdsmi: Callable[..., None]) -> None:
    amdsmi(amdsmi_get_energy_count=_AmdSmiException("not supported"))
    source = AmdSource(["0"])
    (sample,) = source.sample(())
    assert (sample.energy_j, sample.utilization) == (None, 0.75)
    source.sample(())
    assert source.troubles() == ["AMD: energy_count: not supported"]


def test_no_driver_and_no_gpu_are_reasons(amdsmi: Callable[..., None]) -> None:
    amdsmi(amdsmi_init=_AmdSmiException("driver not loaded"))
    with pytest.raises(SourceUnavailable, match="AMD: driver not loaded"):
        AmdSource(None)
    amdsmi(amdsmi_get_processor_handles=[])
    with pytest.raises(SourceUnavailable, match="no GPU of the job"):
        AmdSource(None)


def test_amd_is_found_where_there_is_nothing_of_nvidia(amdsmi: Callable[..., None], monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    amdsmi()
    source, reasons = open_source("auto", SourceOptions(dcgm_url="http://127.0.0.1:1/"))
    assert source.name == "amd"
    assert any("NVML needs nvidia-ml-py, which is not installed" in reason for reason in reasons)
