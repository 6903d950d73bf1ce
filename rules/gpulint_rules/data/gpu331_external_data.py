"""What it detects
Code of a GPU job that fetches data, weights or scripts from outside: ``from_pretrained("org/name")`` and
``load_dataset`` of a hub identifier (also as an option's default), ``download=True``, ``pretrained=True``,
data set classes that download on first use, ``torch.hub``, ``nltk.download``, URLs, and ``wget``, ``curl``,
``gdown``, ``kaggle`` or ``hf download`` in the job's commands, or of archives and weights in ``!`` lines of a
notebook that trains. What a launcher, a notebook's cell, a SageMaker estimator or a recipe for TRL's parser passes
counts over the program's defaults.

Recognizes Hugging Face (transformers, datasets, evaluate, diffusers, PEFT, TRL, hub), ModelScope,
sentence-transformers, FlagEmbedding, LangChain, LlamaIndex, Simple Transformers, LeRobot, vLLM, SGLang, SpeechBrain,
torchvision, torchaudio, torchtext, timm, segmentation-models-pytorch, PyG (also Temporal), DGL, OGB, Keras, TensorFlow
Datasets and Hub, fastai, NLTK, spaCy, gensim, Kaggle, Roboflow, Whisper, CLIP, scikit-learn, the networks of metrics
(LPIPS, FID, BERTScore) and artifacts of Weights & Biases, ClearML and MLflow. ``HF_HUB_OFFLINE`` and similar variables
in a launcher suppress the finding for the hub. Recognizes as jobs Slurm, PBS, LSF and SGE directives; job specs of
Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined, MosaicML,
VESSL, Tekton, Lightning workflows, docker-compose and what Python submits; Snakemake, Nextflow, HTCondor, Terraform
and Makefiles; and what scripts submit as text. Recognizes programs such as ``lm_eval`` and ``trl`` by the identifiers
of the hub that they are given, and clients of S3, Google's and Azure's storage.

Why it costs GPU time
The GPUs are held while files are downloaded, once per job and often once per rank; a slow or failing
server stops the job. External Data Usage is one of the study's fifteen categories.

When to ignore this rule
The files are staged before the job and the call only finds them; the job may use the internet and the
download takes seconds.

Fix safety
Unsafe: downloads by the commands of a Slurm job, and models and data sets that its program loads from the Hugging Face
hub by known identifiers, move to a new script without GPUs that runs before the job; a second new script submits both
in order. Both have to see the same cache. Of a plain script with GPUs, commands move to a script that is run first.
Downloads by the commands of Kubernetes and SkyPilot move in the same way if they write to a volume that both mount, in
Argo's workflows, JobSets, Tekton's pipelines and Azure ML's jobs to a part of the same file that runs first.
A job fetches what its own command line names, and goes offline only if that cannot name anything else.
Otherwise there is only advice: several jobs start the program or they name different models, it runs in a container,
through Ray or with a cache that only its node sees, the job writes the folder that it loads, one small model is all
that would move, or the download happens once (tokenizers, what a library keeps, programs on one GPU that no job
starts).

References
https://huggingface.co/docs/huggingface_hub/guides/cli
https://huggingface.co/docs/transformers/installation#offline-mode
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.documents.shell import ArgWord, Command
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.hub_programs import named_model
from gpulint.launch.transfer_commands import download_tool
from gpulint.libraries.downloads import HUB
from gpulint.programs.gpu_jobs import GpuJobCommand, GpuJobs, runs_file_of_tree, tests_existence
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.requested_steps import runs_on_request
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions, ends_after_repair
from gpulint.semantic.unused_symbols import is_unused
from gpulint.source import Span
from gpulint.training.guards import Guards
from gpulint.transfers import notebook_downloads
from gpulint.transfers.downloads import Download, Downloads
from gpulint.transfers.launched_ids import LaunchedIds
from gpulint.transfers.opt_in import requires_opt_in
from gpulint.transfers.prefetching import Prefetching
from gpulint.values.constants import Constants
from gpulint.workload import kept_passes
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.download_advice import BEFORE, STORAGE, advice, from_hub, names_part
from gpulint_rules.data.download_gate import may_fetch
from gpulint_rules.data.known_downloads import distinct, is_kept, stands_on_disk, told_once


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is not None and project.fact(Downloads).in_module(module):
        if project.fact(GpuPrograms).runs_on_gpu(module):
            yield from _python(document, module, project, ())
        elif (held := project.fact(GpuJobs).holding_part(document.path)) is not None:
            yield from _python(document, module, project, (held,))
    if document.kind is not Kind.NOTEBOOK:
        yield from _commands(document, project)
    else:
        for command, tool in notebook_downloads.downloads(document, module, project):
            yield _command(document, command, tool, "notebook")


def _python(document: Document, module: ModuleIndex, project: Project, held: tuple[Place, ...]) -> Iterator[Finding]:
    """Downloads of a program, if it is one for GPUs or a job has asked for them (``held``) that starts it."""
    for item in downloads_of(module, project, held):
        yield _finding(project, document, module, item, *held)


def downloads_of(module: ModuleIndex, project: Project, held: tuple[Place, ...] = ()) -> Iterator[Download]:
    """Downloads of a module that it does by default, on a machine with GPUs, and that nothing has done before it."""
    yield from told_once([*_downloads(module, project, held)])


def _downloads(module: ModuleIndex, project: Project, held: tuple[Place, ...]) -> Iterator[Download]:
    offline = project.fact(Prefetching).is_offline(module.path)
    for item in distinct(project.fact(Downloads).in_module(module)):
        if (
            (offline and HUB in item.origin)
            or project.fact(Prefetching).of(item) is not None
            or _is_asked_for(module, item)
        ):
            continue
        if _is_named(project, module, item) or project.fact(Guards).is_switched_off(module, item.node):
            continue
        if item.kind == "data" and (stands_on_disk(module, item) or ends_after_repair(module, item.node)):
            continue
        if is_kept(module, item) or kept_passes.is_kept(project, module, item.node):
            continue
        if project.fact(Guards).is_without_gpu(module, item.node):
            continue
        if not (held or project.fact(GpuPrograms).runs_on_gpu_at(module, item.node)):
            continue
        if not is_unused(project, module, item.node) and not requires_opt_in(project, module, item.node):
            yield item


def _is_asked_for(module: ModuleIndex, item: Download) -> bool:
    """Return whether the program only fetches when its user passes a URL (``if args.resume.startswith("https")``),
    or no path that it can read (``if path.startswith("gs://"): ... else: get_file(path)``)."""
    given = {ast.unparse(value) for value in (*item.node.args, *(keyword.value for keyword in item.node.keywords))}
    return "://" not in item.what and any(
        (holds and "http" in ast.unparse(part)) or (not holds and ast.unparse(part.func.value) in given)
        for test, holds in conditions(module, item.node)
        for part in walk(test)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "startswith"
    )


def _is_named(project: Project, module: ModuleIndex, item: Download) -> bool:
    """Return whether the program only fetches what its user names, and not by default (``if args.model ==
    "org/name"``).

    Data sets are all somebody's choice; of the weights, those of another model than the default are not needed.
    """
    if item.kind != "weights":
        return False
    for test, holds in conditions(module, item.node):
        match test:
            case ast.Compare(left=asked, ops=[ast.Eq()], comparators=[ast.Constant(value=name)]) if holds:
                known = project.fact(Constants).of(module, asked)
                if (name == item.what or known.complete) and name not in known.constants:
                    return True
    return False


def _finding(project: Project, document: Document, module: ModuleIndex, item: Download, *held: Place) -> Finding:
    what = f" {item.what!r}" if item.what and item.what != item.name else ""
    origin = f" {item.origin}" if item.origin else ""
    return RULE.finding(
        document.path,
        module.syntax.span(item.node),
        f"{item.name} downloads{what}{origin} in the {'notebook' if document.kind is Kind.NOTEBOOK else 'GPU job'}",
        help=advice(project, module, item),
        related=(*((_named(item.place),) if item.place is not None else ()), *held),
        cost=Cost("download", items=(item.name, "" if names_part(item) else item.what or "")),
    )


def _named(place: Place) -> Place:
    return place if place.message else replace(place, message="what is downloaded is named here")


def _commands(document: Document, project: Project) -> Iterator[Finding]:
    fetched = set[tuple[int, str]]()
    """Models that the commands of a job before have fetched, so that they lie in its cache."""
    for held in project.fact(GpuJobs).commands_of(document):
        tool = download_tool(project.models, held.command)
        if tool and runs_on_request(held.command):
            continue
        if tool and not tests_existence(held.command) and not runs_file_of_tree(held):
            yield _command(document, held.command, tool, "job", held.evidence)
        elif (model := project.fact(Prefetching).served(held)) is not None:
            if _is_first(held, model.text, fetched):
                yield _served(document, held, model)
        elif not tool and not runs_file_of_tree(held):
            if loaded := project.fact(Prefetching).loaded(held):
                yield _loaded(document, held, loaded)
            elif (named := named_model(project.models, held.command)) is not None:
                folders = (project.root, document.path.parent)
                if not any(project.exists(folder / named[0].text) for folder in folders):
                    yield _fetched(document, held, *named)
        elif not project.fact(Prefetching).is_switched_off(held):
            for text, place, loads in project.fact(LaunchedIds).of(held, document.path):
                if _is_first(held, text, fetched):
                    yield _named_id(document, text, place.span, held.evidence, loads)
    for job, evidence in project.fact(GpuJobs).held_in(document.path):
        for text, span in job.task.named_models:
            yield _named_id(document, text, span, evidence)


def _is_first(held: GpuJobCommand, text: str, fetched: set[tuple[int, str]]) -> bool:
    """Return whether no command of the job before has fetched a model in all cases."""
    key = (id(held.job), text)
    if key in fetched:
        return False
    if not held.command.blocks:
        fetched.add(key)
    return True


def _loaded(document: Document, held: GpuJobCommand, words: list[tuple[ArgWord, bool]]) -> Finding:
    first, is_data = words[0]
    return RULE.finding(
        document.path,
        first.word.span,
        f"{' and '.join(repr(word.text) for word, _ in words[:2])} of the Hugging Face hub "
        f"{'is' if len(words) == 1 else 'are'} downloaded while the job holds its GPUs",
        help=from_hub(first.text, is_data),
        related=(held.evidence,),
    )


def _fetched(document: Document, held: GpuJobCommand, model: ArgWord, origin: str) -> Finding:
    return RULE.finding(
        document.path,
        model.word.span,
        f"{model.text!r} is downloaded from {origin} while the job holds its GPUs",
        help=f"download it {BEFORE} to {STORAGE}, and pass its path",
        cost=Cost("download", items=(model.text,)),
        related=(held.evidence,),
    )


def _named_id(document: Document, text: str, span: Span, evidence: Place, loads: str = "") -> Finding:
    return RULE.finding(
        document.path,
        span,
        f"{text!r} of the Hugging Face hub is downloaded while the job holds its GPUs",
        help=from_hub(text, loads.endswith("load_dataset")),
        cost=Cost("download", items=(loads, text) if loads else (text,)),
        related=(evidence,),
    )


def _served(document: Document, held: GpuJobCommand, model: ArgWord) -> Finding:
    return RULE.finding(
        document.path,
        model.word.span,
        f"the server downloads {model.text!r} from the Hugging Face hub while the job holds its GPUs",
        help=from_hub(model.text),
        related=(held.evidence,),
    )


def _command(document: Document, command: Command, tool: str, holder: str, *evidence: Place) -> Finding:
    url = next((word.text for word in command.argv if "://" in word.text), "")
    name = url.rstrip("/").rpartition("/")[2][:60]
    return RULE.finding(
        document.path,
        command.span,
        f"{tool} downloads {name!r} while the {holder} holds its GPUs"
        if name
        else f"{tool} downloads while the {holder} holds its GPUs",
        help=f"download it {BEFORE} to {STORAGE}",
        related=evidence,
    )


RULE = Rule(
    code="GPU331",
    name="external-data",
    category=Category.EXTERNAL_DATA_USAGE,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    reads=("download", "hub-download", "sdk-download", "data-sets", "downloader", "hub-program"),
    may_fire=may_fetch,
    summary="GPU job downloads data or weights",
    why="data or weights are downloaded while GPUs are allocated, often once per rank",
    evidence=(Evidence("External Data Usage is one of 15 categories in 706 issues of 400 jobs"),),
    check=check,
    cost=Cost("download"),
    fix=Safety.UNSAFE,
    bad="""\
model = AutoModel.from_pretrained("google/gemma-2b").cuda()
trainer.train()
""",
    good="""\
model = AutoModel.from_pretrained("/models/gemma-2b", local_files_only=True).cuda()
trainer.train()
""",
    references=("https://huggingface.co/docs/huggingface_hub/guides/cli",),
)
