"""What it detects
Heavy work on the CPU in the training input path of a GPU program: images decoded, resampled or warped one by one
(``__getitem__``, ``ImageFolder`` with resizing transforms, webdataset, Keras' ``ImageDataGenerator``), audio resampled
or turned into features, text tokenised in ``__getitem__``, a stream's ``__iter__`` or a collate function, and
``datasets.map`` or a loop of the tokeniser over the whole set, or a loop over the files of a folder that decodes them,
in one process before training. In job files: a program that preprocesses or tokenises the data
(``python preprocess.py``, ``python -m tool.preprocess``) in a GPU job, before the program that uses the GPUs.
Nothing of these is reported of data sets whose loaders all have 10 workers or more. A sample that a data set takes
twice from another one, which decodes it each time (``self.rows[i]["image"], self.rows[i]["label"]`` of Hugging Face's
``datasets``). A file of one path that ``__getitem__`` opens or reads again for each sample (``zipfile.ZipFile``,
``h5py.File``, ``pandas.read_csv``), and an array of which it reads all for a slice (``np.load(path)[start:end]``).

Recognizes PyTorch data sets and collate functions, torchvision's data sets, webdataset, MONAI's ``Dataset``,
SpeechBrain's dynamic items, Keras' ``ImageDataGenerator`` and ``Sequence``, and Hugging Face ``datasets``; PIL,
OpenCV, imageio, scikit-image, Matplotlib and torchvision as decoders of images, decord, PyAV, OpenCV and TorchCodec of
video, NiBabel, SimpleITK, pydicom and tifffile of volumes; librosa, torchaudio, python_speech_features and
audiomentations for audio.

Why it costs GPU time
The GPU waits whenever the CPU prepares batches more slowly than the model uses them. Data preprocessing is
4.0% of the study's 706 issues.

When to ignore this rule
A profile shows that the loader keeps up: enough worker processes, small items, results cached after the first
epoch.

Fix safety
Unsafe: ``Dataset.map`` gets ``num_proc``, as many processes as the launcher has cores for, or 4; each has its own
memory, and the function has to work in another process. Texts in memory get none, nor do batches for a fast tokenizer.
A sample that is taken twice is taken once: where the inner data set draws at random, its parts are then of one draw.
All else is advice: what can move to the GPU or to a step before the job depends on the transforms.

References
https://docs.nvidia.com/deeplearning/dali/user-guide/docs/
https://huggingface.co/docs/datasets/process#multiprocessing
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import LAUNCHERS, Document
from gpulint.documents.call_syntax import passed_as
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.placement.host_results import copies_to_host
from gpulint.programs import preparation
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.points_to import Resolver
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Constants
from gpulint.workload.calling_programs import only_programs_without_training_call
from gpulint.workload.corpus_passes import corpus_passes
from gpulint.workload.folder_passes import folder_passes, reader_words
from gpulint.workload.image_datasets import IMAGE_SETS, image_sets
from gpulint.workload.kept_passes import is_kept
from gpulint.workload.map_functions import is_streamed, tokenises_in_batches
from gpulint.workload.sample_preprocessing import (
    IMAGES,
    TOKENISES,
    SamplePreprocessing,
    is_held_out,
)
from gpulint.workload.worker_supply import has_many_workers
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name
from gpulint_rules.data import one_thread, pass_costs
from gpulint_rules.data import sample_repeats as again
from gpulint_rules.data.work_advice import WORK_ADVICE, advice


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """What is done on the CPU, and the function or class that does it."""

    work: str
    name: str


_FEW = regex.compile(r"^\w+\[:\d{1,3}\]$")
_STAND_IN = regex.compile(r"fake|dummy|mock|synthetic", re.IGNORECASE)
_POOL = regex.compile(r"Pool(Executor)?$")


def check(document: Document, project: Project) -> Iterator[Finding]:
    if document.kind in LAUNCHERS:
        yield from _steps(document, project)
    module = project.module(document)
    if module is None:
        return
    found = [
        *_per_item(module, project),
        *again.findings(project, module, RULE),
        *_sets(module, project),
        *_maps(module, project),
        *_passes(module, project),
        *_folders(module, project),
    ]
    if found and project.fact(GpuPrograms).runs_on_gpu(module):
        yield from found


def _steps(document: Document, project: Project) -> Iterator[Finding]:
    """Programs that a job has prepare data before the one that uses its GPUs."""
    for step in preparation.steps(project, document, preparation.PREPARES, preparation.FOREIGN):
        yield RULE.finding(
            document.path,
            step.span,
            f"{step.name} prepares data on the CPU while the job holds its GPUs",
            help=f"run {step.name} in a job without GPUs and make this one depend on it",
            severity=Severity.WARNING,
            cost=pass_costs.of_folder(),
            related=(step.evidence,),
        )


def _per_item(module: ModuleIndex, project: Project) -> Iterator[Finding]:
    for heavy in SamplePreprocessing(project).per_item(module):
        owner = module.class_of(heavy.function)
        if (owner is not None and _STAND_IN.search(owner.name)) or has_many_workers(project, module, heavy.function):
            continue
        name = f"{owner.name}.{heavy.function.name}" if owner is not None else heavy.function.name
        alone = one_thread.is_in_one_thread(project, module, owner)
        unit = "item" if heavy.function.name in ("__getitem__", "__iter__") else "batch"
        yield RULE.finding(
            module.path,
            module.syntax.span(heavy.call),
            f"{name} {heavy.work} on the CPU for every {unit}",
            help=one_thread.OF_SEQUENCE if alone else advice(heavy.work, module, owner, heavy.function),
            payload=Preprocessing(heavy.work, name),
            cost=one_thread.of_method(project, module, owner, heavy),
            related=(Place(module.path, module.syntax.head(heavy.function), f"runs for every {unit}"),),
        )


def _sets(module: ModuleIndex, project: Project) -> Iterator[Finding]:
    for made in image_sets(module, project):
        alone = one_thread.of_call(project, module, made)
        yield RULE.finding(
            module.path,
            module.syntax.span(made.call),
            f"{made.name} decodes and augments images in one thread of Python" if alone else made.does,
            help=one_thread.OF_GENERATOR if alone else WORK_ADVICE[IMAGES],
            payload=Preprocessing(IMAGES, made.name),
            cost=alone,
        )


def _maps(module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``dataset.map(tokenise)`` over the whole set, in one process."""
    for call in () if _few(module) else module.calls_by_name.get("map", []):
        mapped = _mapped(module, project, call)
        if mapped is None or not isinstance(call.func, ast.Attribute) or _maps_held_out(module, call):
            continue
        if is_kept(project, module, call) or only_programs_without_training_call(project, module, call):
            continue
        workers = project.fact(Arguments).of(module, call, "num_proc")
        one = not workers.is_absent
        if one and not project.fact(Arguments).value(module, call, "num_proc").every(
            lambda value: value in (None, 0, 1)
        ):
            continue
        base = last_name(call.func.value)
        work, function = mapped
        name = function.node.name if isinstance(function.node, FUNCTIONS) else "lambda"
        spread = f"set `num_proc=` of {base}.map to" if one else f"pass `num_proc=` to {base}.map with"
        spread = f"{spread} the job's CPU cores, or map"
        if work == TOKENISES and tokenises_in_batches(module, call):
            spread = "a fast tokenizer uses all cores with `batched=True`; map"
        yield RULE.finding(
            module.path,
            module.syntax.span(call),
            f"{base}.map {work} of the whole data set in one process before training".replace("text of", "the text of"),
            help=f"{spread} once in a CPU step and load the result",
            payload=Preprocessing(work, name),
            cost=pass_costs.of_map(project, module, call, work, one),
            related=(project.fact(Constants).place(function, "the function that is mapped"),),
        )


def _mapped(module: ModuleIndex, project: Project, call: ast.Call) -> tuple[str, NodeRef] | None:
    """The heavy work that ``.map`` applies, and the function that does it; None for the ``map`` of TensorFlow, JAX,
    pools and builtins."""
    argument = passed_as(call, "function", 0)
    if (
        argument is None
        or "datasets" not in module.syntax.source.text
        or any(k.arg in ("num_parallel_calls", "chunksize") for k in call.keywords)
        or (_is_pool(module, call) or is_streamed(module, call))
    ):
        return None
    paths = SamplePreprocessing(project)
    for ref in _functions(module, project, argument):
        if isinstance(ref.node, FUNCTIONS) and (found := paths.heavy(ref.module, ref.node)):
            return None if _comes_from_gpu(ref) else (found.work, ref)
        if isinstance(ref.node, ast.Lambda) and (work := paths.work_of(ref.module, ref.node)):
            return work, ref
    return None


def _comes_from_gpu(function: NodeRef) -> bool:
    """Return whether a function copies what it makes from the GPU: it runs a model, which more processes do not help
    to do."""
    calls = (
        part for part in walk(function.node) if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
    )
    return any(last_name(call.func) in ("cpu", "detach", "cuda") or copies_to_host(call) for call in calls)


def _is_pool(module: ModuleIndex, call: ast.Call) -> bool:
    """``pool.map`` of processes or threads."""
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return False
    made = (binding.value for binding in module.scope(call).lookup(call.func.value.id))
    return any(isinstance(one, ast.Call) and _POOL.search(last_name(one.func)) for one in made)


def _functions(module: ModuleIndex, project: Project, node: ast.expr) -> Iterator[NodeRef]:
    """Yield what is called by a function value: the function itself, or the one inside ``partial(f, ...)``."""
    for ref in project.fact(Resolver).points_to(module, node):
        if isinstance(ref.node, ast.Call) and last_name(ref.node.func) == "partial" and ref.node.args:
            yield from project.fact(Resolver).points_to(ref.module, ref.node.args[0])
        else:
            yield ref


def _few(module: ModuleIndex) -> bool:
    """Return whether the module loads a handful of rows (``split="train[:100]"``)."""
    return any(_FEW.search(text) for text in module.strings)


def _maps_held_out(module: ModuleIndex, call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    words = [
        part.value for part in walk(call.func.value) if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    if "train" in words:  # of `train_val["train"]`, or of both splits put together
        return "streaming=True" in module.syntax.source.text
    words += [part.id for part in walk(call.func.value) if isinstance(part, ast.Name)]
    statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), None)
    words += map(last_name, statement.targets) if isinstance(statement, ast.Assign) else []
    return any(is_held_out(word) for word in words) or "streaming=True" in module.syntax.source.text


def _passes(module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``[tokenizer.encode(s) for s in train_texts]`` in the program that then trains."""
    for found in corpus_passes(project, module):
        if is_kept(project, module, found.node):
            continue
        yield RULE.finding(
            module.path,
            module.syntax.span(found.node),
            f"`{found.texts}` is tokenised text by text in one process before training",
            help=WORK_ADVICE[TOKENISES],
            payload=Preprocessing(TOKENISES, found.texts),
            cost=pass_costs.of_pass(module, TOKENISES),
        )


def _folders(module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """``for name in os.listdir(root): signals.append(torchaudio.load(...))`` in the program that then trains: all
    passes of a module together."""
    passes = [
        found
        for found in folder_passes(project, module)
        if not is_kept(project, found.loop.module, found.loop.node) and not is_kept(project, module, found.call)
    ]
    for found in passes[:1]:
        yield RULE.finding(
            module.path,
            module.syntax.span(found.call),
            f"{last_name(found.call.func)} {found.work} file by file in one process before training",
            help="prepare the files once in a CPU step and load the result, or read them in the workers of a loader",
            payload=Preprocessing(found.work, last_name(found.call.func)),
            cost=pass_costs.of_folder(),
            related=tuple(
                project.fact(Constants).place(one.loop, "the loop over the files" if one is found else "another loop")
                for one in passes
            ),
        )


RULE = Rule(
    code="GPU311",
    name="cpu-preprocessing",
    category=Category.DATA_PREPROCESSING,
    dimension=Dimension.DATA,
    severity=Severity.INFO,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    code_tokens=(
        (
            "__getitem__",
            "ollat",  # `collate` and `Collator`
            "ImageDataGenerator",
            ".map(",
            "takes(",
            "tokeniz",
            "convert_",
            "to_features",
            "IterableDataset",
            *("webdataset", "LoadImage"),
            *("listdir", "glob(", "iterdir", "os.walk", "scandir"),
            *sorted(IMAGE_SETS),
            *reader_words(),
        ),
    ),
    summary="CPU prepares training data item by item",
    why="the GPU waits whenever the CPU prepares batches more slowly than the model uses them",
    evidence=(Evidence("4.0% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("sample-work"),
    fix=Safety.UNSAFE,
    bad="""\
class Images(Dataset):
    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]))

train(Images(paths), device="cuda")
""",
    good="""\
@pipeline_def(num_threads=8)
def images():
    files, labels = fn.readers.file(file_root=root)
    images = fn.decoders.image(files, device="mixed")
    return fn.random_resized_crop(images, size=224), labels.gpu()
""",
    references=("https://docs.nvidia.com/deeplearning/dali/user-guide/docs/",),
)
