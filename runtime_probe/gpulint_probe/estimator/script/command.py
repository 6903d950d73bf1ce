"""Read the command after ``--``, run it in a child process and return what it would need."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint_probe.estimator.errors import EstimateError

if TYPE_CHECKING:
    from gpulint_probe.estimator.api import Request
    from gpulint_probe.estimator.script.child import Outcome

_LAUNCHERS = {"torchrun", "accelerate", "deepspeed", "srun", "python", "python3", "env"}
# Options of launchers that are followed by a value; others stand alone or hold theirs after "=".
_VALUED = re.compile(
    r"--?(nproc[-_]per[-_]node|nnodes|node[-_]rank|master[-_](addr|port)|rdzv[-_]\w+|num[-_]processes|num[-_]machines|"
    r"mixed[-_]precision|config[-_]file|num[-_]gpus|include|hostfile|n|N|W|X|c)"
)
_PROCESSES = re.compile(r"--(?:nproc[-_]per[-_]node|num[-_]processes|num[-_]gpus)=?(\d+)?")
_CHILD = "import sys; from gpulint_probe.estimator.script.child import main; sys.exit(main(sys.argv[1:]))"
_SETTING = re.compile(r"\w+=")
# Trackers that would report to a server, and a hub that would be asked again and again, as connections are refused.
_OFFLINE = {
    "WANDB_MODE": "disabled",
    "HYDRA_FULL_ERROR": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
DEFAULT_CARD = "A100-40GB"


@dataclass(frozen=True, slots=True)
class Command:
    """A script or module with its own arguments; ``processes`` as the launcher asks (0: it does not)."""

    script: str
    arguments: tuple[str, ...]
    module: bool = False
    processes: int = 0


@dataclass(frozen=True, slots=True)
class Override:
    """What is to differ from the script, and what to tell beside its estimate (pickled to the child process).

    ``batch_size`` is that of its data loaders, ``precision`` "bf16" runs it under autocast, ``cards`` are further
    cards to estimate it for, ``timeline`` asks for the memory over the steps.
    """

    batch_size: int | None = None
    precision: str = ""
    cards: tuple[str, ...] = ()
    timeline: bool = False


def is_command(words: Sequence[str]) -> bool:
    """Return whether words are a command that runs Python, and not a target."""
    return bool(words) and (
        Path(words[0]).name in _LAUNCHERS or words[0].endswith(".py") or bool(_SETTING.match(words[0]))
    )


def parse_command(words: Sequence[str]) -> Command:
    """Read ``[NAME=VALUE] [python|torchrun|...] [options] SCRIPT arguments``. Raises EstimateError."""
    processes, position = 0, 0
    # DeepSpeed's launcher tells each process its rank by an argument of the script.
    ranked = ("--local_rank=0",) if Path(words[0]).name == "deepspeed" and "--no_local_rank" not in words else ()
    while position < len(words):
        word = words[position]
        found = _PROCESSES.match(word)
        if found:
            processes = int(found[1] or (words[position + 1] if words[position + 1 :][:1] else "0") or 0)
        if word == "-m" and position + 1 < len(words) and words[position + 1] != "torch.distributed.run":
            return Command(words[position + 1], tuple(words[position + 2 :]), True, processes)
        if word.endswith(".py"):
            return Command(word, (*ranked, *words[position + 1 :]), False, processes)
        position += 2 if _VALUED.fullmatch(word) else 1
    raise EstimateError(f"no Python script in the command {' '.join(words)!r}")


def estimate_command(
    request: Request, words: Sequence[str], loader: str = "real", steps: int = 3, seconds: float = 300.0,
    override: Override | None = None, variables: Mapping[str, str] | None = None,
) -> Outcome:  # fmt: skip
    """Run the command on fake tensors and estimate it. Raises EstimateError, also where it takes too long."""
    from gpulint_probe.estimator.script.child import Spec

    command = parse_command(words)
    if not command.module and not Path(command.script).is_file():
        raise EstimateError(f"no file {command.script}")
    if not request.gpu and not request.memory:
        request = replace(request, gpu=DEFAULT_CARD)
    gpus = max(request.gpus, command.processes, 1)
    request = replace(request, target=" ".join(words), gpus=gpus)
    spec = Spec(request, command.script, command.arguments, command.module, loader, steps, gpus,
                override or Override())  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="gpulint-") as folder:
        given, answer = Path(folder, "spec"), Path(folder, "result")
        given.write_bytes(pickle.dumps(spec))
        run = [sys.executable, "-P", "-c", _CHILD, str(given), str(answer)]
        environment = dict(os.environ) | _of_the_job(variables or {}) | _assigned(words) | _OFFLINE
        if gpus > 1 or Path(words[0]).name == "torchrun":  # what a launcher tells the first of its processes
            environment |= {"WORLD_SIZE": str(gpus), "RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": str(gpus)}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        try:  # standard output is for the answer alone
            ended = subprocess.run(run, timeout=seconds, stdout=2, env=environment, check=False)
        except subprocess.TimeoutExpired:
            raise EstimateError(
                f"{command.script} took no {steps} optimizer steps on a CUDA device within {seconds:.0f} s"
                " (--time-limit)"
            ) from None
        if not answer.is_file():
            raise EstimateError(f"{command.script} ended its process with exit code {ended.returncode}")
        outcome: Outcome = pickle.loads(answer.read_bytes())
    if outcome.error:
        raise EstimateError(outcome.error)
    return outcome


def _assigned(words: Sequence[str]) -> dict[str, str]:
    """The variables that a command sets for its program, as ``NAME=VALUE python train.py``."""
    found: dict[str, str] = {}
    for word in words[1:] if words[0] == "env" else words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            break
        found[name] = value
    return found


def _of_the_job(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that a job sets, without those of its scheduler, which libraries would ask for their ranks."""
    return {name: value for name, value in variables.items() if not name.startswith(("SLURM_", "PBS_", "LSB_"))}
