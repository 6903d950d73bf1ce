"""What it detects
Data read from an object store while GPUs are held: a bucket passed as input to the program of a GPU job,
``ray.data.read_*`` of a bucket, files opened from a URL or bucket in ``__getitem__``, ``__iter__`` or the
training loop, shards and records that webdataset or tf.data read from a bucket in every epoch without a cache,
or of which MosaicML's streaming and webdataset keep copies on a network's disk.

Recognizes Ray Data, webdataset, MosaicML's streaming, tf.data, and paths on S3, Google Cloud Storage, Azure storage and
HDFS. Recognizes as jobs Slurm, PBS, LSF and SGE directives; job specs of Kubernetes (with Kubeflow's and Volcano's
jobs), Ray, SkyPilot, dstack, Azure ML, SageMaker, Determined, Lightning workflows and docker-compose.

Why it costs GPU time
Every read waits for the network, and it is repeated in each epoch. Remote Data Read is one of the study's
fifteen categories.

When to ignore this rule
A streaming library that prefetches and caches; data too large for any local disk; a read once at start. Data sets of
webdataset and tf.data of which all uses are seen, and that one pass reads (one ``model.evaluate``), are not reported.

Fix safety
Unsafe: the library keeps what it reads in a folder on the node, which needs space for all of it, and files that change
are not read again. webdataset gets a ``cache_dir``, also where a job passes the bucket to its program, and MosaicML's
streaming another ``local``; ``.cache(file)`` follows the records of tf.data, before they are shuffled and augmented;
addresses that fsspec opens begin with ``simplecache::``, file systems of s3fs, gcsfs and adlfs are wrapped in such a
cache, and pandas reads the copy that fsspec makes. fsspec writes copies in their place: each process of a node gets a
folder of its own, and after a job that was killed the folder should be emptied. The folder is in ``$SLURM_TMPDIR`` or
``$TMPDIR`` where the job uses it, else in ``/tmp``; there the copy of tf.data, a new one in each run, stays after the
run where nothing cleans the folder. Left to you are files that the program writes itself, samples that
are drawn at random, records that are divided by ``take``, shards of which another set may have the same names in the
same folder, and libraries without a cache.

References
https://docs.ray.io/en/latest/data/performance-tips.html
https://webdataset.github.io/webdataset/webdataset/
https://filesystem-spec.readthedocs.io/en/latest/features.html#caching-files-locally
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.base import LAUNCHERS, Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Severity
from gpulint.fix import Safety
from gpulint.gate import Gate
from gpulint.impact import Cost
from gpulint.launch.job import Job
from gpulint.libraries import BUILT_IN
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.hardware_words import may_be_for_tpu
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.transfers.data_caches import DataCaches, writes
from gpulint.transfers.storage import UNKNOWN, StorageLocations
from gpulint.transfers.stream_passes import is_read_once
from gpulint.workspace.module_index import COMPREHENSIONS, LOOPS, FunctionNode, ModuleIndex, last_name

_BUCKETS = ("s3://", "s3a://", "gs://", "gcs://", "wasb", "abfs", "hdfs://")
_BUCKET = r"(?:s3a?|gs|gcs|wasbs?|abfss?|hdfs)://"
_INPUT = regex.compile(
    rf"--?[\w.-]*(?:input|data|train|record|image|corpus|"
    rf"file_?pattern|shard)[\w.-]*[=\s]+['\"]?(?:pipe:\s*(?:aws|gsutil|gcloud|s5cmd|hdfs|rclone)\s[^'\"]*?\s)?"
    rf"(?P<path>{_BUCKET}[^\s'\",\]]+)",
    re.IGNORECASE,
)
_OUTPUT = regex.compile(r"output|out_dir|log|ckpt|checkpoint|result|save|staging|model", re.IGNORECASE)
_NO_PROGRAM = regex.compile(
    r"(^|\s)#(?!SBATCH|PBS|BSUB|\$)|(^|[;&|(])\s*(echo|printf|aws|gsutil|gcloud|s5cmd|azcopy|rclone|hdfs|hadoop)\b"
)
"""What comes before an option in a comment, in text, or in a command that copies."""
_READ_ONCE = regex.compile(r"\.(pt|pth|ckpt|safetensors|bin|onnx|ya?ml|json|cfg|toml|model|vocab)$")
"""Ends of weights, settings and lists, which are read once."""
_LOCAL_OPTION = regex.compile(r"--?[\w.-]*(local|(data|shard)\w*_?cache)[\w.-]*[=\s]+[\"']?[/$.~{]")
"""Options for a folder on the node."""
_KEEPERS = sorted(
    {name.partition(".")[0] for row in BUILT_IN.rows("data-cache") for name in row.calls if row.by == "default"}
)
_STREAMING = regex.compile(rf"^\s*(from|import) ({'|'.join(_KEEPERS)})\b", re.MULTILINE)
"""Libraries that keep what they fetch, and fetch ahead."""
_STREAMS = tuple(
    sorted(
        {
            name.rpartition(".")[2]
            for row in BUILT_IN.rows("data-cache")
            for name in row.calls
            if row.streams or row.argument
        }
    )
)
"""Data sets that read their source again in each epoch, or keep it in a folder."""
_ON_DISK = frozenset({"exists", "isfile", "is_file"})
_READS = frozenset(
    (
        "open urlopen get read_csv read_parquet read_json load imread read_image GFile NpzFile File "
        "ParquetFile get_object download_file"
    ).split()
)
_ONCE = Cost("data-copy", basis="a read of the data, kept in Ray's object store")
"""``materialize()`` keeps what the epochs go through."""
_RAY = regex.compile(r"^ray\.data\.(read_\w+)$")


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is not None:
        found = [
            *_ray(document, module, project),
            *_per_item(document, module, project),
            *_streams(document, module, project),
            *_remote_copies(document, module, project),
        ]
        if found and project.fact(GpuPrograms).runs_on_gpu(module):
            yield from found
    if document.kind in LAUNCHERS:
        yield from _arguments(document, project)


def _ray(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    for call in module.calls:
        if not last_name(call.func).startswith("read_") or not call.args:
            continue
        if any(_RAY.match(name) for name in project.fact(Resolver).call_names(module, call)):
            where = project.fact(StorageLocations).of(module, call.args[0])
            if where.is_remote and "://" in where.text and not _is_other_format(module, call, where.text):
                yield _finding(
                    document,
                    module,
                    call,
                    f"ray.data.{last_name(call.func)} reads {where.text} while GPUs are held",
                    _ONCE if "materialize" in module.calls_by_name else None,
                )


def _is_other_format(module: ModuleIndex, call: ast.Call, text: str) -> bool:
    """Return whether the call is in the branch for names that end otherwise (``elif uri.endswith(".parquet")``)."""
    asked = ast.unparse(call.args[0])
    for test, holds in conditions(module, call):
        for part in walk(test) if holds else ():
            match part:
                case ast.Call(func=ast.Attribute(value=owner, attr="endswith"), args=[ast.Constant(value=str(end))]):
                    if ast.unparse(owner) == asked and not text.endswith(end):
                        return True
    return False


def _per_item(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """Files opened from a bucket for each item or step."""
    for name in sorted(_READS & module.calls_by_name.keys()):
        for call in module.calls_by_name[name]:
            function = module.function(call)
            per_item = (
                function is not None
                and function.name in ("__getitem__", "__iter__")
                and module.class_of(call) is not None
            )
            if not call.args or _is_builtin_open(module, call, project) or writes(call):
                continue
            where = project.fact(StorageLocations).of(module, call.args[0])
            if _is_outside_of_loops(module, call, function) or _fetches_missing(module, call):
                continue
            store = per_item and not where.is_remote and project.fact(DataCaches).file_system(module, call)
            is_url = re.match(_BUCKET, where.text) or (per_item and "://" in where.text)
            if not store and not (where.is_remote and is_url):
                continue
            if per_item or project.fact(LoopContexts).enclosing_loops(module, call):
                row = project.fact(DataCaches).of(module, call)
                if row is not None and project.fact(DataCaches).is_cached(module, call, row):
                    continue
                unit = "every item" if per_item else "every iteration"
                what = (
                    f"{last_name(call.func)} of {store} reads a file"
                    if store
                    else f"{last_name(call.func)} reads {where.text}"
                )
                yield _finding(document, module, call, f"{what} for {unit}")


def _streams(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """Data sets of a training that read a bucket again in each epoch. What a job passes is reported there."""
    caches = project.fact(DataCaches)
    for call, row in caches.streams(module):
        source = caches.source(call, row)
        where = caches.location(module, source) if source is not None else UNKNOWN
        if not re.match(_BUCKET, where.text) or caches.is_cached(module, call, row):
            continue
        if where.place is not None and project.kind(where.place.path) in LAUNCHERS:
            continue
        users = caches.with_users(module)
        if caches.is_drawn(module, call, row) or any(map(may_be_for_tpu, users)):
            continue
        trains = any(project.fact(MultiGpuUse).of(user.path).trains for user in users)
        if trains and not is_read_once(project, module, call, row):
            yield _finding(
                document, module, call, f"{last_name(call.func)} reads {where.text} in every epoch, and keeps no copy"
            )


def _remote_copies(document: Document, module: ModuleIndex, project: Project) -> Iterator[Finding]:
    """Copies on a network's disk of what a data set reads elsewhere."""
    for call, row, where in project.fact(DataCaches).remote_folders(module):
        yield RULE.finding(
            document.path,
            module.syntax.span(call),
            f"{last_name(call.func)} keeps what it fetches in {where.text}, which is on the network",
            help=f"pass a folder on the node's own disk as `{row.argument}`",
        )


def _is_outside_of_loops(module: ModuleIndex, call: ast.Call, function: FunctionNode | None) -> bool:
    """Return whether ``__iter__`` reads something once in each pass, such as a list of files."""
    return (
        function is not None
        and function.name == "__iter__"
        and not any(isinstance(up, (*LOOPS, *COMPREHENSIONS)) for up in module.syntax.ancestors(call))
    )


def _fetches_missing(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether only what is not on the disk yet is read: ``if not os.path.exists(local)``."""
    return any(
        not wanted and isinstance(part, ast.Call) and last_name(part.func) in _ON_DISK
        for test, holds in conditions(module, call)
        for part, wanted in parts_of(test, holds)
    )


def _is_builtin_open(module: ModuleIndex, call: ast.Call, project: Project) -> bool:
    """Python's own ``open`` knows no URLs: what it is given stands on a disk, whatever else the path is used for."""
    if not isinstance(call.func, ast.Name) or call.func.id != "open":
        return False
    return project.fact(Resolver).call_names(module, call) <= {"open", "builtins.open", "io.open"}


def _finding(
    document: Document, module: ModuleIndex, call: ast.Call, message: str, cost: Cost | None = None
) -> Finding:
    return RULE.finding(
        document.path,
        module.syntax.span(call),
        message,
        help="copy the data to local disk in a step before the job, or read through a cache on local disk",
        cost=cost,
    )


def _arguments(document: Document, project: Project) -> Iterator[Finding]:
    """``--input=gs://...`` in the command or arguments of a GPU task."""
    seen: set[int] = set()
    for job, evidence in project.fact(GpuJobs).held_in(document.path):
        span, keeps = job.task.span, None
        for number in range(span.line, span.end_line + 1):
            line = document.source.line(number)
            match = _INPUT.search(line)
            if match is None or number in seen or _OUTPUT.search(match[0].partition("://")[0]):
                continue
            if _NO_PROGRAM.search(line[: match.start()]) or _READ_ONCE.search(match["path"]):
                continue
            if keeps is None:
                keeps = _keeps_copy(project, job)
            if keeps:
                break
            seen.add(number)
            start = document.source.offset(number, match.start() + 1)
            place = document.source.span(start, start + len(match[0]))
            caches = project.fact(DataCaches)
            reading = caches.reading(document.path, place)
            if reading and all(caches.is_cached(module, call, row) for module, call, row in reading):
                continue
            yield RULE.finding(
                document.path,
                place,
                f"the GPU job reads its input from {match['path']}",
                help="copy the data to local disk in a step before the job, or mount a volume that contains it",
                related=(evidence,),
            )


def _keeps_copy(project: Project, job: Job) -> bool:
    """Return whether the programs of a job keep what they read on a disk of their own, and fetch it ahead: an option
    names the folder, or the library does so."""
    span = job.task.span
    text = "\n".join(map(job.document.source.line, range(span.line, span.end_line + 1)))
    programs = (project.fact(MultiGpuUse).started(start) for start in job.launches)
    return _LOCAL_OPTION.search(text) is not None or any(
        program is not None and program.mentions(_STREAMING) for program in programs
    )


def _may_fire(gate: Gate) -> bool:
    """Somewhere a bucket must be named, unless any URL will do."""
    return any(map(gate.has, ("__getitem__", "__iter__", *_STREAMS))) or any(map(gate.tree_has, _BUCKETS))


RULE = Rule(
    code="GPU321",
    name="remote-data-read",
    category=Category.REMOTE_DATA_READ,
    dimension=Dimension.DATA,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK, Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW}),
    tokens=(("://", "read_", "open", "__getitem__", *_STREAMS),),
    reads=("data-cache",),
    may_fire=_may_fire,
    summary="GPU job reads its data from remote storage",
    why="every read waits for the network while the GPUs are allocated, again in each epoch",
    evidence=(Evidence("Remote Data Read is one of 15 categories in 706 issues of 400 jobs"),),
    check=check,
    cost=Cost("remote-read"),
    fix=Safety.UNSAFE,
    bad="""\
class Images(Dataset):
    def __getitem__(self, index):
        with fsspec.open(f"s3://bucket/images/{index}.jpg") as file:
            return decode(file)

train(Images(), device="cuda")
""",
    good="""\
class Images(Dataset):
    def __getitem__(self, index):
        with open(f"/local/images/{index}.jpg", "rb") as file:
            return decode(file)

train(Images(), device="cuda")
""",
    references=(
        "https://docs.ray.io/en/latest/data/performance-tips.html",
        "https://webdataset.github.io/webdataset/webdataset/",
        "https://filesystem-spec.readthedocs.io/en/latest/features.html#caching-files-locally",
    ),
)
