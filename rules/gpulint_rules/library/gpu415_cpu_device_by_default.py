"""What it detects
A job that requests GPUs and starts a program that stays on the CPU: an option such as ``--device`` whose default is
``cpu``, or ``--cuda`` that is off by default, and the launcher does not pass it; ``Trainer(accelerator="cpu")``;
``JAX_PLATFORMS=cpu`` or ``jax.config.update("jax_platform_name", "cpu")``; ``tf.config.set_visible_devices([],
"GPU")``; a CPU-only wheel index in the job's install line.

Recognizes argparse options, Lightning's ``Trainer`` and ``Fabric``, TensorFlow, JAX and Accelerate
(``ACCELERATE_USE_CPU``); CPU builds of PyTorch, TensorFlow, JAX and Faiss; Slurm, PBS, LSF and SGE directives; job
specs of Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined,
Lightning workflows, docker-compose and what Python submits.

Why it costs GPU time
The program runs, but slowly, and the GPUs of the job are idle until it ends.

When to ignore this rule
Availability checks that fall back; options that the launcher or a configuration file sets; evaluation on the CPU on
purpose.

Fix safety
Unsafe: the launcher's line passes the device, Lightning's ``accelerator`` becomes ``"gpu"`` unless the model holds
tensors that would stay in host memory, and calls and variables that hide the GPUs are removed. The program's own
default stays for those who start it elsewhere. A build for the CPU is left to you: which one is right depends on the
driver.

References
https://pytorch.org/docs/stable/tensor_attributes.html#torch.device
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value, passed_as
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.job import Job, JobLaunch, Launched
from gpulint.placement.unmoved_tensors import first_unmoved
from gpulint.programs.multi_gpu_use import MultiGpuUse, Program, Use
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule, Scope
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import ModuleIndex
from gpulint.workspace.word_index import word_of
from gpulint_rules.library.chosen_devices import decides_device, is_for_another_process, is_set_again, names_gpu
from gpulint_rules.library.installed_builds import cpu_builds

_DEVICE = frozenset({"--device", "--accelerator", "--dev", "--device_type", "--device-type"})
_SWITCHES = frozenset(
    {"--cuda", "--gpu", "--use_cuda", "--use-cuda", "--use_gpu", "--use-gpu", "--with-cuda", "--enable-cuda"}
)
_TRAINERS = frozenset({word_of("Trainer"), word_of("Fabric")})
_MODELS = frozenset({word_of("LightningModule"), word_of("Module")})
_OTHERS = frozenset({"torch", "vllm", "sglang", "cupy", "lightning", "pytorch_lightning", "transformers", "warp"})
"""Packages that compute on GPUs whatever platform JAX or TensorFlow has."""
_JAX_GPU = regex.compile(r"""["'](gpu|cuda|rocm|tpu)(:\d+)?["']|\btorch\b|\btensorflow\b|\bdevice_put\b""")
"""What places work of JAX elsewhere than its default platform, or libraries that do."""
_PLATFORMS = {"JAX_PLATFORMS": "cpu", "JAX_PLATFORM_NAME": "cpu", "ACCELERATE_USE_CPU": "true"}


@dataclass(frozen=True, slots=True)
class OnCpu:
    """What keeps the program off the GPUs: an option that ``start`` has to pass, or the expression that says so."""

    start: JobLaunch | None = None
    option: str = ""
    node: ast.expr | None = None
    variable: str = ""
    unmoved: Place | None = None
    """What would fail on a GPU as it is."""


def check(job: Job, project: Project) -> Iterator[Finding]:
    if job.task.role != "main" or job.gpus is None or not job.gpus.value:
        return
    for start in job.launches:
        if start.program is None or start.launch.uncalled:
            continue
        module = project.module_at(start.program)
        program = project.fact(MultiGpuUse).of(start.program)
        if module is not None and program.use is Use.YES:
            yield from _jax(job, module, project)
        if module is not None and program.use is Use.YES and program.trains:
            if not names_gpu(program):
                yield from _options(job, start, module, program)
            imported = {name for path in program.files for name in project.imports(path)}
            yield from _trainers(job, module, program, project)
            yield from _hidden_from_tensorflow(job, module, project, imported)
            yield from _environment(job, start, imported)
    yield from _wheels(job, project)


def _options(job: Job, start: JobLaunch, module: ModuleIndex, program: Program) -> Iterator[Finding]:
    """Device options that nobody passes and whose default is the CPU."""
    launched = Launched(job, start)
    words = [word.text for word in start.launch.args]
    if any(word.hole for word in start.launch.args) or "config" in " ".join(words):
        return
    if any(word.startswith("@") for word in words):
        return  # a file of arguments
    for call in module.calls_by_name.get("add_argument", []):
        flags = tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if launched.option(flags) or any(_abbreviates(word, flag) for word in words for flag in flags):
            continue
        name = next((flag for flag in flags if flag in _DEVICE | _SWITCHES), None)
        if name is None or not _is_off(name, keywords) or _also_automatic(module, name):
            continue
        option = _attribute(flags, keywords)
        if is_set_again(module, option) or not decides_device(program, option):
            continue
        place = Place(module.path, module.syntax.span(call))
        default = "is off" if name in _SWITCHES else "is 'cpu'"
        launcher = f"{start.place.path.name}:{start.place.span.mark}"
        alone = sum(other.script is None for other in job.launches) < 2
        message = f"{name} {default} by default and {launcher} does not pass it: the GPUs stay idle"
        message += "" if alone else " while it runs"
        given = name if name in _SWITCHES else f"{name} {'gpu' if name == '--accelerator' else 'cuda'}"
        allowed = _choices(keywords)
        payload = None if allowed and given.split()[-1] not in (*allowed, name) else OnCpu(start, given)
        yield _finding(job, place, message, f"pass `{given}` in the launcher", payload, start)


def _abbreviates(word: str, flag: str) -> bool:
    """``--dev cuda`` for ``--device``, as argparse takes it"""
    given = word.partition("=")[0]
    return given.startswith("--") and len(given) > 3 and flag.startswith(given)


def _attribute(flags: tuple[str, ...], keywords: dict[str | None, ast.expr]) -> str:
    """The attribute that holds the value of an option."""
    dest = keywords.get("dest")
    if isinstance(dest, ast.Constant):
        return str(dest.value)
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    return long.lstrip("-").replace("-", "_")


def _is_off(name: str, keywords: dict[str | None, ast.expr]) -> bool:
    if name in _SWITCHES:
        action, default = keywords.get("action"), keywords.get("default")
        off = default is None or (isinstance(default, ast.Constant) and default.value is False)
        return isinstance(action, ast.Constant) and action.value == "store_true" and off
    default = keywords.get("default")
    return isinstance(default, ast.Constant) and default.value == "cpu"


def _choices(keywords: dict[str | None, ast.expr]) -> list[str]:
    listed = keywords.get("choices")
    parts = listed.elts if isinstance(listed, ast.List | ast.Tuple | ast.Set) else []
    return [str(part.value) for part in parts if isinstance(part, ast.Constant)]


def _also_automatic(module: ModuleIndex, name: str) -> bool:
    """Return whether the program also picks a device by availability, so that the option only overrides it."""
    attribute = name.lstrip("-").replace("-", "_")
    for call in module.calls_by_name.get("is_available", []):
        statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), None)
        condition = (
            ast.unparse(statement.test if isinstance(statement, ast.If) else statement) if statement is not None else ""
        )
        if isinstance(statement, ast.Assign | ast.If) and attribute not in condition and "not " not in condition:
            return True
    text = module.syntax.source.text
    return (
        bool(re.search(r"Accelerator\(|local_rank|LOCAL_RANK|\.cuda\(\)|[\"']cuda:?\d?[\"']\s*\)(?!\s*if)", text))
        and name in _DEVICE
    )


def _trainers(job: Job, module: ModuleIndex, program: Program, project: Project) -> Iterator[Finding]:
    """``Trainer(accelerator="cpu")`` of Lightning where no other trainer of the program may use a GPU."""
    names = ("Trainer", "Fabric")
    chosen = [keyword_value(call, "accelerator") for name in names for call in module.calls_by_name.get(name, ())]
    if not any(map(_is_cpu, chosen)):
        return
    others = program.modules_where(lambda project, path: project.word_index.holds_one(path, _TRAINERS))
    if not all(
        _is_cpu(keyword_value(call, "accelerator"))
        for other in others
        for name in names
        for call in other.calls_by_name.get(name, ())
    ):
        return  # this one validates, exports or fits another model
    for name in names:
        for call in module.calls_by_name.get(name, []):
            value = keyword_value(call, "accelerator")
            if value is not None and not project.fact(Guards).is_conditional(module, call):
                place = Place(module.path, module.syntax.span(value))
                message = f"{name}(accelerator='cpu') does not use the GPUs"
                advice = "use `accelerator='gpu'`, or request no GPU"
                if (unmoved := _unmoved(project, program)) is not None:
                    at = f"{unmoved.path.name}:{unmoved.span.mark}"
                    advice = f"request no GPU, or use `accelerator='gpu'` once {at} is ready for it: {unmoved.message}"
                yield _finding(job, place, message, advice, OnCpu(node=value, unmoved=unmoved))


def _unmoved(project: Project, program: Program) -> Place | None:
    """Return what would fail if a trainer moved the program's models to a GPU."""
    modules = program.modules_where(lambda project, path: project.word_index.holds_one(path, _MODELS))
    return next((place for module in modules if (place := first_unmoved(project, module)) is not None), None)


def _is_cpu(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value == "cpu"


def _hidden_from_tensorflow(job: Job, module: ModuleIndex, project: Project, imported: set[str]) -> Iterator[Finding]:
    """``tf.config.set_visible_devices([], "GPU")`` where nothing but TensorFlow computes. Programs of other libraries
    read their data with TensorFlow, and so keep it from taking the memory of the GPUs."""
    if _packages(imported) & {"jax", *_OTHERS}:
        return
    for call in module.calls_by_name.get("set_visible_devices", []):
        empty = bool(call.args) and isinstance(call.args[0], ast.List) and not call.args[0].elts
        kind = passed_as(call, "device_type", 1)
        if (
            empty
            and isinstance(kind, ast.Constant)
            and str(kind.value).upper() == "GPU"
            and not is_for_another_process(module, call)
            and not project.fact(Guards).is_conditional(module, call)
        ):
            place = Place(module.path, module.syntax.span(call))
            yield _finding(
                job, place, "set_visible_devices([], 'GPU') hides the job's GPUs", "remove the call", OnCpu(node=call)
            )


def _jax(job: Job, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``jax.config.update("jax_platform_name", "cpu")`` in a program that asks for no other device."""
    if _JAX_GPU.search(module.syntax.source.text):
        return
    for call in module.calls_by_name.get("update", []):
        match call.args:
            case [ast.Constant(value="jax_platform_name" | "jax_platforms" as name), ast.Constant(value="cpu")]:
                if not project.fact(Guards).is_conditional(module, call) and not is_for_another_process(module, call):
                    place = Place(module.path, module.syntax.span(call))
                    message = f"{name} 'cpu' keeps the program off the job's GPUs"
                    yield _finding(job, place, message, "remove the call, or request no GPUs", OnCpu(node=call))


def _environment(job: Job, start: JobLaunch, imported: set[str]) -> Iterator[Finding]:
    """The variable that keeps a program off the GPUs, if nothing else of the job may use them."""
    for name, value in _PLATFORMS.items():
        setting = start.env.get(name)
        if setting is None or (setting.value or "").lower() != value:
            continue
        if name.startswith("JAX_") and not _computes_with_jax(imported):
            continue
        if any(other.env.get(name) is None and not other.launch.uncalled for other in job.launches):
            continue  # a server that the program asks, and which has the GPUs
        yield _finding(
            job,
            setting.place,
            f"{name}={setting.value} keeps the program off the job's GPUs",
            f"do not set {name}",
            OnCpu(variable=name),
        )
        return


def _computes_with_jax(imported: set[str]) -> bool:
    """Return whether a program imports JAX and nothing else that computes on GPUs: environments in JAX go beside a
    model in another library."""
    packages = _packages(imported)
    return "jax" in packages and packages.isdisjoint(_OTHERS)


def _packages(imported: set[str]) -> set[str]:
    """The packages of imported names."""
    return {name.partition(".")[0] for name in imported}


def _wheels(job: Job, project: Project) -> Iterator[Finding]:
    """Builds for the CPU in an install line; of a single library only where no other one computes."""
    programs = [program for start in job.launches if (program := project.fact(MultiGpuUse).started(start)) is not None]
    used = frozenset(library for program in programs for library in program.libraries) & {"jax", *_OTHERS}
    for item, found in cpu_builds(job, project):
        if "torch" in found or not used - {found.partition("[")[0]}:
            message = f"`{found}` installs a build for the CPU in a job that holds GPUs"
            yield _finding(job, item.place, message, "install the build for the GPUs' driver, best in the image")


def _finding(
    job: Job, place: Place, message: str, advice: str, payload: OnCpu | None = None, start: JobLaunch | None = None
) -> Finding:
    assert job.gpus is not None
    related = [Place(job.gpus.place.path, job.gpus.place.span, "the GPUs are requested here")]
    if start is not None:
        related.append(Place(start.place.path, start.place.span, "the launcher that does not pass the option"))
    return RULE.finding(place.path, place.span, message, help=advice, payload=payload, related=tuple(related))


RULE = Rule(
    code="GPU415",
    name="cpu-device-by-default",
    category=Category.API_MISUSE,
    dimension=Dimension.LIBRARY,
    severity=Severity.ERROR,
    kinds=frozenset({Kind.PYTHON, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    scope=Scope.JOB,
    summary="the program of a GPU job stays on the CPU",
    why="the program runs on the CPU while the job's GPUs are idle",
    evidence=(Evidence("API Misuse is one of the study's fifteen categories of low GPU utilization"),),
    check=check,
    cost=Cost("idle-gpus"),
    fix=Safety.UNSAFE,
    bad="""\
# sbatch --gres=gpu:1, then: python train.py
parser.add_argument("--device", default="cpu")
model.to(parser.parse_args().device)
""",
    good="""\
# sbatch --gres=gpu:1, then: python train.py --device cuda
parser.add_argument("--device", default="cpu")
model.to(parser.parse_args().device)
""",
    references=("https://pytorch.org/docs/stable/tensor_attributes.html#torch.device",),
)
