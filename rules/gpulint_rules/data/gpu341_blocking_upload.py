"""What it detects
Uploads that the training loop waits for: ``mlflow.log_artifact``, ``push_to_hub``, clients of object stores, copies to
remote storage and ``gsutil``, ``aws s3`` or ``azcopy`` run from Python, at every step, epoch or evaluation; also a
``SummaryWriter`` whose folder is remote, and Lightning's
``WandbLogger(log_model="all")``.

Recognizes Weights & Biases, MLflow, Neptune, the Hugging Face hub, clients of S3, Google Cloud Storage, Azure, OSS and
MinIO, ``gcloud storage``, ``rclone``, HDFS and TensorBoard; PyTorch loops and the hooks of Lightning modules, Hugging
Face trainers, callbacks (Lightning, Keras), SpeechBrain brains and Ignite engines.

Why it costs GPU time
The GPU idles until the last byte is sent. Intermediate Result Upload is one of the study's fifteen
categories.

When to ignore this rule
After training; a client that queues the upload (``push_to_hub(blocking=False)``); a file of a few bytes. What Weights &
Biases and Comet save or log is sent in the background, and is not reported.

Fix safety
Unsafe, for boto3's and Google's uploads of a file and for ``shutil`` copies to remote storage: a small module, which
the fix writes beside the program, copies the file on the local disk and uploads the copy in one worker, in order. The
program waits for the last upload at exit, and a failed one is printed while training continues. For the rest there is
advice: clients of experiment trackers are bound to their thread or upload objects of their own.

References
https://docs.python.org/3/library/concurrent.futures.html#threadpoolexecutor
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.libraries import gate_words
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.query import cyclic
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.transfers.storage import StorageLocations
from gpulint.transfers.uploads import Upload, Uploads
from gpulint.values.arguments import Arguments
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef

_PERIODS = frozenset({"epoch", "step", "global_step", "iteration", "epoch_idx", "current_epoch"})
_AT_END = regex.compile(r"train_end|fit_end|finish|final|close|teardown|exit|^end|_end$")
_WITHIN = regex.compile(r"epoch_end|batch_end|step_end|validation_end|eval_end")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The upload and the loop that waits for it, None where a parameter names the epoch instead."""

    upload: Upload
    context: LoopContext | None


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None:
        return
    for upload in Uploads(project).in_module(module):
        if project.fact(Guards).is_off_by_default(module, upload.node) or project.fact(Guards).is_debugging(
            module, upload.node
        ):
            continue
        contexts = [
            c for c in project.fact(LoopContexts).enclosing_loops(module, upload.node) if c.role is not Role.OTHER
        ]
        context = next((c for c in contexts if _is_taken(project, c)), None)
        if context is None and contexts:
            continue
        if context is None and not _is_periodic(module, upload.node, project):
            continue
        if project.fact(GpuPrograms).runs_on_gpu(module):
            yield _finding(document, project, module, upload, context)
    yield from _writers(document, module, project)
    yield from _loggers(document, module, project)


def _is_taken(project: Project, context: LoopContext) -> bool:
    """Return whether the loop's calls lead to the upload by default (not ``else`` of ``if self.in_background``), and no
    thread."""
    return not any(
        project.fact(Guards).is_off_by_default(call.module, call.node) or Uploads.in_thread(call.module, call.node)
        for call in context.calls
    )


def _is_periodic(module: ModuleIndex, node: ast.AST, project: Project, depth: int = 3) -> bool:
    """``def log_model(self, path, epoch)`` runs once for each epoch, unless its calls say otherwise."""
    function = module.function(node)
    if function is None or not depth or (_AT_END.search(function.name) and not _WITHIN.search(function.name)):
        return False
    if not any(arg.arg in _PERIODS for arg in (*function.args.args, *function.args.kwonlyargs)):
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    if not sites:
        return not _depends_on_caller(module, node, function)
    return _is_called_periodically(project, sites, depth - 1)


@cyclic(False)
def _is_called_periodically(project: Project, sites: tuple[NodeRef, ...], depth: int) -> bool:
    return any(_is_periodic(site.module, site.node, project, depth) for site in sites)


def _depends_on_caller(module: ModuleIndex, node: ast.AST, function: FunctionNode) -> bool:
    """Return whether a parameter decides if the place is reached at all (``if kind == "model"``)."""
    names = {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)}
    return any(
        holds
        and isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id in names
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.comparators[0], ast.Constant)
        for test, holds in conditions(module, node)
    )


def _finding(
    document: Document, project: Project, module: ModuleIndex, upload: Upload, context: LoopContext | None
) -> Finding:
    when = (
        {Role.STEP: "step", Role.EPOCH: "epoch", Role.EVAL: "evaluation"}[context.role]
        if context is not None
        else "epoch"
    )
    return RULE.finding(
        document.path,
        module.syntax.span(upload.node),
        f"{upload.name} uploads while the training loop waits, in the {when} loop",
        help=(
            f"hand {upload.name} to one background worker (`ThreadPoolExecutor(max_workers=1).submit(...)`) "
            "and join it at exit"
        ),
        payload=Uploaded(upload, context),
        related=tuple(
            project.fact(Constants).place(call, "called from the loop here")
            for call in (context.calls[:1] if context is not None else ())
        ),
    )


def _writers(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """A TensorBoard writer whose events go to a bucket."""
    for call in module.calls_by_name.get("SummaryWriter", []):
        for ref in project.fact(Arguments).of(module, call, "log_dir", 0).refs:
            if not isinstance(ref.node, ast.expr):
                continue
            where = project.fact(StorageLocations).of(ref.module, ref.node)
            if where.is_remote and "://" in where.text and project.fact(GpuPrograms).runs_on_gpu(module):
                yield RULE.finding(
                    document.path,
                    module.syntax.span(call),
                    f"SummaryWriter sends its events to {where.text} from the training loop",
                    help="write events to a local folder and sync it in the background",
                    severity=Severity.INFO,
                    related=(where.place,) if where.place is not None else (),
                )
                break


def _loggers(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """A logger of Lightning that uploads every checkpoint as soon as it is written."""
    if "fit" not in module.calls_by_name:
        return
    for call in module.calls_by_name.get("WandbLogger", []):
        names = project.fact(Resolver).call_names(module, call)
        if not any(name.startswith(("lightning.", "pytorch_lightning.")) for name in names):
            continue
        offline = project.fact(Arguments).value(module, call, "offline").every(lambda value: value is True)
        every = project.fact(Arguments).value(module, call, "log_model").any(lambda value: value == "all")
        if every and not offline and project.fact(GpuPrograms).runs_on_gpu(module):
            yield RULE.finding(
                document.path,
                module.syntax.span(call),
                'WandbLogger(log_model="all") uploads every checkpoint while training goes on',
                help="log_model=True uploads the best checkpoint once, after training",
                severity=Severity.INFO,
            )


RULE = Rule(
    code="GPU341",
    name="blocking-upload",
    category=Category.INTERMEDIATE_RESULT_UPLOAD,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    reads=("upload",),
    tokens=(
        (
            *gate_words("upload"),
            "upload",
            "shutil",
            "gfile",
            "gsutil",
            "azcopy",
            "aws",
            "gcloud",
            "rclone",
            "hdfs",
            "SummaryWriter",
            "WandbLogger",
        ),
    ),
    summary="training loop waits for uploads",
    why="the GPU is idle until the results of the step, epoch or evaluation are uploaded",
    evidence=(Evidence("Intermediate Result Upload is one of 15 categories in 706 issues of 400 jobs"),),
    check=check,
    cost=Cost("upload"),
    fix=Safety.UNSAFE,
    bad="""\
for epoch in range(epochs):
    train_one_epoch(model)
    mlflow.log_artifact("last.pt")
""",
    good="""\
with ThreadPoolExecutor(max_workers=1) as uploads:
    for epoch in range(epochs):
        train_one_epoch(model)
        uploads.submit(mlflow.log_artifact, save(epoch))
""",
    references=("https://docs.python.org/3/library/concurrent.futures.html#threadpoolexecutor",),
)
