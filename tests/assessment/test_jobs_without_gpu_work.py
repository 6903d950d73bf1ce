"""An install of a job that needs no GPU is beside the point: its request has to go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import scan

JOB = "#!/bin/bash\n#SBATCH --gres=gpu:8\n#SBATCH --container-image=a/b\npip install torch vllm\npython prepare.py\n"
TOKENIZES = """\
import datasets
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("gpt2")
datasets.load_from_disk("texts").map(lambda row: tokenizer(row["text"])).save_to_disk("tokens")
"""
EMBEDS = """\
import datasets
from transformers import AutoModel, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained("gpt2"), AutoModel.from_pretrained("gpt2").cuda()
datasets.load_from_disk("texts").map(lambda row: model(**tokenizer(row["text"]))).save_to_disk("states")
"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (TOKENIZES, {"GPU106": "high", "GPU401": "low"}),
        (EMBEDS, {"GPU401": "medium"}),
        ("import acme_llm\n", {"GPU401": "medium"}),
    ],
    ids=["on the CPU", "on the GPU", "unknown"],
)
def test_installs_of_a_job_that_needs_no_gpu_are_low(tmp_path: Path, program: str, expected: dict[str, str]) -> None:
    found = (one.finding for one in scan(tmp_path, {"prepare.py": program, "job.sh": JOB}).results)
    assert {one.rule.code: str(one.impact.level) for one in found if one.rule.code in ("GPU106", "GPU401")} == expected
