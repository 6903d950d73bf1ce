"""What holds for all tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.slurm_cluster import cluster
from tests.torch_programs import torch_python
from tests.trees import checked, tree

__all__ = ["checked", "cluster", "torch_python", "tree"]

# That Hypothesis takes long to make inputs depends on what else the machine does, and says nothing about gpulint.
settings.register_profile("any machine", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def _cache_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep reports in a scratch folder, in processes that tests start too, and never in the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPULINT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over modules and tests: looking at them again and again took a tenth of the time."""
    gc.collect()
    gc.freeze()
