"""What a file says of how much the findings in it matter: demos, copies, old versions, benchmarks, toy runs."""

from __future__ import annotations

import ast
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.copies import has_line, original
from gpulint.assessment.jobs import MANY_GPUS
from gpulint.launch.gpu_counts import gpus_of
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.query import query, stored
from gpulint.training.guards import is_benchmark
from gpulint.training.loop_roles import Role
from gpulint.training.phases import draws_figure
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.libraries import Models
    from gpulint.libraries.programs import Library
    from gpulint.project import Project

_DEMO = regex.compile(
    r"(^|[/_.-])(tutorials?|demos?|demonstration|workshops?|getting[-_]?started|quick[-_]?start|lessons?|courses?|labs?"
    r"|cookbooks?|blogs?|exercises?|assignments?|homework|playground|intro(duction)?|colab|toy|hello[-_]?world|templates?)([/_.-]|$)"
    r"|(^|/)(examples?|samples?)(/|$)",
    re.IGNORECASE,
)
_COMMENTED_START = regex.compile(
    r"^[ \t]*#[ \t]*((srun|torchrun|mpirun)\b[^\n]*\.py|python3?[ \t]+[\w./-]+\.py)\b", re.MULTILINE
)
_OUTDATED = regex.compile(
    r"(^|[/_. -])(old|bak|backups?|deprecated|legacy|archived?|obsolete|unused|useless|not[-_ ]?(in[-_ ]?)?use[d]?|copy"
    r"|trash|history|previous([-_ ]?(code|version)s?)?)([/_. -]|\d|$)"
    r"|(^|[/_. -])(graveyard|attic|junk|abandoned|discarded|retired|outdated|superseded|recycle[-_ ]?bin"
    r"|rubbish|no[-_ ]longer[-_ ](used|needed))/"
    r"|(^|/)garbage/|[_. -](junk|garbage|abandoned|discarded|superseded|outdated)\.\w+$"
    r"|(^|[/_. -])(dead|scrapped|thrown[-_ ]away)([-_ ]?(code|files?|scripts?|stuff|models?|ideas?|experiments?))?/"
    r"|(^|[/_-])logs?/",
    re.IGNORECASE,
)
_VENDORED = regex.compile(
    r"(^|/)(third[-_]?party|3rd[-_]?party|vendor(ed)?|externals?|extern|submodules?|deps|contrib|site-packages"
    r"|node_modules|forks?|reference[-_]?(impl(ementation)?s?|code))/"
    r"|(^|/)\.(claude|cursor|codex|gemini|agents?|windsurf|opencode|copilot|continue|roo|kiro|cline|factory)/",
    re.IGNORECASE,
)
"""Folders for the code of others; what is written for assistants is documentation with examples."""
_SKILL = "SKILL.md"
"""The file at the head of a folder that explains a task to an assistant."""
_UNPACKED = ("-main", "-master")
"""Ends of the folders that archives of repositories unpack into."""
_PUBLISHED = ("CONTRIBUTING", "CITATION", "SETUP.PY", "PYPROJECT.TOML", "MANIFEST.IN", "MODEL_ZOO", "CHANGELOG")
"""What a folder holds, besides its own licence, that is a project which somebody else publishes."""
_ADAPTED = regex.compile(
    r"\b(code|copied|adapted|taken|borrowed|ported|derived|modified|based|copy|adaptation|implementation)\b[^\n]{0,60}"
    r"\b(from|on|of|by)\b[^\n]*\n?[^\n]*(github\.com|https?://|\brepo\b)",
    re.IGNORECASE,
)
_GENERATED = regex.compile(
    r"@generated\b|\bauto(matically)?[- ]?generated\b(?= *(by|from|with|via|code|file|module|[!*#])|\W*$)"
    r"|\bthis (file|code|module) (is|was|has been) generated\b"
    r"|\bgenerated (by|from|with)\b(?=[^\n]*\n?[^\n]*\b(do not|don't) (edit|modify|change)\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""What generators write at the head of a file, which the next run of theirs overwrites."""
_WRITTEN_ONCE = regex.compile(
    r"colab|jupyter|notebook|nbconvert|ipynb|gpt|claude|copilot|gemini|cursor|deepseek|\b(ai|llm|assistant|template)\b",
    re.IGNORECASE,
)
"""What leaves files to people: exports of notebooks, assistants, templates."""
_KEEP_OUT = regex.compile(r"\b(do not|don't) (edit|modify|change)\b", re.IGNORECASE)
_IN_THE_LOOP = regex.compile(r"(^|[/_.-])(user|human)s?[-_]in[-_]the[-_]loop([/_.-]|$)", re.IGNORECASE)
"""Names of programs that train on what people have just said of a few samples."""
_MEASURES = regex.compile(
    r"(^|[/_.-])(bench(mark)?s?|benchmarking|profil(e|er|ing)|speed[-_]?test|sanity|check)([/_.-]|$)", re.I
)
_TOY_DATA = regex.compile(
    r"\b(Fashion|K|Q)?MNIST\w*\(|\bEMNIST\w*\((?![^#]{0,150}?by(class|merge)[\"'])|\bUSPS\(|mnist\.load_data"
    r"|load_(iris|digits|boston|diabetes|breast_cancer|wine)\b|make_(moons|blobs|classification|regression|circles)\("
    r"|(?<!class )\b(Fake|Dummy|Toy|Synthetic|Random)\w*(Dataset|Data|Loader)\("
    r"|TUDataset\(|Planetoid\(|PennFudan"
    r"|[\"'](CartPole|LunarLander|Pendulum|MountainCar|Acrobot|FrozenLake|Taxi|CliffWalking)\w*-v\d"
    r"|\bMedNIST|load_dataset\(\s*[\"'](mnist|fashion_mnist|imdb|glue|rotten_tomatoes|yelp_polarity)[\"']"
)
_FEW = regex.compile(
    r"""split\s*=\s*["'][^"']*\[:\s*\d{1,5}\]|\.select\(\s*range\(\s*\d{1,4}\s*\)"""
    r"""|--?max[-_](steps|iters)[= ]\d{1,2}\b"""
)
_SMOKE = regex.compile(
    r"(^|[/_.-])(smoke|dry[-_]?run|debug|minimal|mini|tiny|dummy|synthetic|diagnos(e|is|tics?)|troubleshoot(ing)?"
    r"|(find|hunt|check|debug|trace)[-_]nans?|mnist)([/_.-]|$)",
    re.IGNORECASE,
)
_HOLDS = regex.compile(
    r"(^|[_.-])(dummy|hold|holder|keep[-_]?alive|placeholder|occupy|reserve)([_.-]|$)", re.IGNORECASE
)
_INSPECTS = regex.compile(
    r"(^|[/_-])(visuali[sz]e|plot|draw|show|inspect|export|extract|convert|inference|infer|predict|generate|sample|synthesi[sz]e"
    r"|interpolate|heat[-_]?maps?|saliency|attributions?|(grad[-_]?)?cam|metrics?|scores?|fid|inception|evaluate|evaluation|eval|test|validat(e|ion))([/_.-]|s?\d*$)",
    re.IGNORECASE,
)
_LARGE_SAMPLES = regex.compile(
    r"Conv3d|(?<![A-Za-z0-9])3[dD](?![A-Za-z0-9])|[Vv]olum|nibabel|SimpleITK|[Rr]eplay_?[Bb]uffer|\breplay\b|[Rr]ollout"
)
_EVALUATION_BATCH = regex.compile(r"(?:eval|val|valid|test)\w{0,40}[-_]batch[-_]?size\W{1,4}(\d{1,5})\b", re.IGNORECASE)
_DATA_PARALLEL = regex.compile(r"(^|[_-])(data_?parallel|dp)([_-]|$)", re.IGNORECASE)
PASTED = 3
"""Blocks for the start of a program in one file from which on it is a collection of files."""
MUCH_LARGER = 4
"""Times the training batch from which on an evaluation batch says that the model's memory does not limit it: without
a backward pass two or three times as many samples fit in any case."""
MAX_IMPORTED = 12
"""Most imported modules that are searched for toy data."""
_PURPOSE = regex.compile(
    r"(^|[/_.-])(diag(nos\w+)?|debug|dev|devel|shell|jupyter\w*|notebooks?|interactive|workspace|vscode|login|sandbox)([/_.-]|$)",
    re.IGNORECASE,
)
_CHANGED = regex.compile(r"[_-](custom|modified|forked|fork|local|copy|patched)$", re.IGNORECASE)
"""Ends of names of copies that were changed: ``ultralytics_custom``."""


def is_demo(subject: Subject) -> bool:
    return bool(_DEMO.search(subject.place)) and not subject.is_launcher and not subject.jobs


def shows_model(subject: Subject) -> bool:
    """Return whether a demo trains nothing: it runs a model on a few inputs, for a person who waits for them."""
    return is_demo(subject) and not subject.trains


def is_example_launcher(subject: Subject) -> bool:
    """Return whether it is the specification of a job that starts nothing of the tree, in a folder of examples."""
    return subject.is_launcher and bool(_DEMO.search(subject.place)) and not any(job.programs for job in subject.jobs)


def is_template(subject: Subject) -> bool:
    """Return whether a script starts nothing of the tree, and a line that starts a program is commented out."""
    return subject.is_launcher and not any(job.programs for job in subject.jobs) and subject.mentions(_COMMENTED_START)


def is_placeholder(subject: Subject) -> bool:
    """Return whether a script that starts nothing of the tree is there to hold GPUs, by its name."""
    return subject.is_launcher and bool(_HOLDS.search(subject.path.stem)) and not any(j.programs for j in subject.jobs)


def is_notebook(subject: Subject) -> bool:
    return subject.is_notebook and not subject.jobs


def evaluates_for_figure(subject: Subject) -> bool:
    """Return whether a function evaluates for a figure that it makes, and no epoch calls it."""
    module, node = subject.module, subject.node
    if module is None or node is None or not subject.roles.isdisjoint({Role.EPOCH, Role.STEP}):
        return False
    return draws_figure(subject.project, module, node)


def is_outdated(subject: Subject) -> bool:
    """By its name; but who names a file, or submits a job that runs it, uses it."""
    if not _OUTDATED.search(subject.place):
        return False
    return not any(map(subject.project.is_named, (subject.path, *(job.document.path for job in subject.jobs))))


def is_of_others_or_measures(place: str) -> bool:
    """Return whether a path, from the root of the tree, tells of code of others or of a benchmark."""
    return bool(_VENDORED.search(place) or _MEASURES.search(place))


def is_vendored(subject: Subject) -> bool:
    if _VENDORED.search(subject.place):
        return True
    root, folder = subject.project.root, subject.path.parent
    while folder != root and folder.is_relative_to(root):
        if _SKILL in subject.project.entries(folder):
            return True
        if folder.name.endswith(_UNPACKED) and _has_programs_beside(subject.project, folder):
            return True
        names = [name.upper() for name in subject.project.entries(folder)]
        if any(name.startswith(("LICENSE", "LICENCE", "COPYING")) for name in names):
            if any(name.upper().startswith("LICEN") for name in subject.project.entries(root)):
                return True
            return any(name.startswith(_PUBLISHED) for name in names) and _has_files_beside(subject.project, folder)
        folder = folder.parent
    return False


@stored("programs beside a folder")
def _has_programs_beside(project: Project, folder: Path) -> bool:
    return any(path.suffix == ".py" and not path.is_relative_to(folder) for path in project.files)


@stored("files beside a folder")
def _has_files_beside(project: Project, folder: Path) -> bool:
    return any(not path.is_relative_to(folder) for path in project.files)


def is_library_copy(subject: Subject) -> bool:
    """Return whether the file belongs to a copy of a library's package, and the tree is not the library's own."""
    known = subject.project.models.derived(_copied_packages)
    folders = (_CHANGED.sub("", part) for part in subject.place.split("/")[:-1])
    packages = [part for part in folders if part.lower() in known]
    root = subject.project.root.name.lower().replace("-", "_")
    return bool(packages) and not any(part.lower() in root for part in packages)


def _copied_packages(models: Models) -> frozenset[str]:
    rows: tuple[Library, ...] = models.rows("library")
    return frozenset(package for row in rows for package in row.copied_packages)


def is_adapted(subject: Subject) -> bool:
    """A helper whose head says that it comes from elsewhere; a program of its own is its owner's by now."""
    if subject.module is None or subject.trains or Role.STEP in subject.roles:
        return False
    return _says_adapted(subject.module)


@query
def _says_adapted(module: ModuleIndex) -> bool:
    return _ADAPTED.search("\n".join(module.syntax.source.text.split("\n", 25)[:25])) is not None


def is_generated(subject: Subject) -> bool:
    """Return whether the head of a module says that a generator has written it."""
    return subject.module is not None and not subject.is_notebook and _says_generated(subject.module)


@query
def _says_generated(module: ModuleIndex) -> bool:
    head = "\n".join(module.syntax.source.text.split("\n", 25)[:25])
    said = [head[found.start() : found.end() + 120] for found in _GENERATED.finditer(head)]
    return any(_KEEP_OUT.search(text) or not _WRITTEN_ONCE.search(text) for text in said)


def is_pasted(subject: Subject) -> bool:
    """Return whether a module holds the programs of several files, and no job or other file names it."""
    module = subject.module
    if module is None or subject.is_notebook or subject.jobs or subject.project.is_named(subject.path):
        return False
    return sum(map(_starts_program, module.syntax.tree.body)) >= PASTED


def _starts_program(part: ast.stmt) -> bool:
    return isinstance(part, ast.If) and "__main__" in ast.unparse(part.test)


def is_copy(subject: Subject) -> bool:
    """Return whether the file is a copy of another one, which has the finding's line as well, unless only
    the copy moves its batches to a GPU."""
    other = original(subject.project, subject.path)
    if other is None or subject.is_notebook:
        return other is not None
    document = subject.project.document(subject.path)
    if document is None or not has_line(subject.project, other, document.source.line(subject.finding.span.line)):
        return False
    module = subject.project.module_at(other)
    if module is None or subject.module is None:
        return True
    return _moves_batches(subject.project, module) or not _moves_batches(subject.project, subject.module)


@query
def _moves_batches(project: Project, module: ModuleIndex) -> bool:
    return any(project.fact(DeviceTransfers).batch_transfers(module))


def learns_from_user(subject: Subject) -> bool:
    return bool(_IN_THE_LOOP.search(subject.place)) and not subject.jobs


def measures(subject: Subject) -> bool:
    return bool(_MEASURES.search(subject.place)) or is_benchmark(subject.path) or subject.project.is_test(subject.path)


def is_toy(subject: Subject) -> bool:
    """Return whether the program trains on digits or made-up data, or is named for a smoke run."""
    if _SMOKE.search(subject.place) or _names_toy(subject.text):
        return True
    return subject.module is not None and not subject.is_notebook and _imports_toy(subject.project, subject.path)


def _names_toy(text: str) -> bool:
    """Return whether a text names such data, other than in a comment: ``# trainset = datasets.MNIST("data")``."""
    if not regex.occurs(_TOY_DATA, text):
        return False
    return any(
        "#" not in text[text.rfind("\n", 0, at) + 1 : at] for at in (m.start() for m in _TOY_DATA.finditer(text))
    )


@query
def _imports_toy(project: Project, path: Path) -> bool:
    """Return whether a module beside the program makes the data set of digits that it trains on."""
    imported = islice(sorted(project.imported(path)), MAX_IMPORTED)
    return any(project.matches(other, _TOY_DATA) for other in imported if other.parent == path.parent)


def uses_few(subject: Subject) -> bool:
    """Return whether the program takes a handful of samples."""
    return subject.mentions(_FEW)


def inspects(subject: Subject) -> bool:
    """Return whether the file is there to evaluate, show or export what was trained, and no job runs it; a launcher, if
    it starts nothing that trains."""
    if not _INSPECTS.search(subject.place.rpartition("/")[2].removesuffix(".py")):
        return False
    return not subject.starts_training if subject.is_launcher else not subject.trains and not subject.jobs


def has_large_samples(subject: Subject) -> bool:
    return subject.mentions(_LARGE_SAMPLES)


def is_sized_for_memory(subject: Subject) -> bool:
    """Return whether nothing says that more samples would fit, as a larger batch for evaluation beside it does."""
    amount = subject.cost.amount if subject.cost is not None else None
    if amount is None:
        return False
    return not any(int(match[1]) >= MUCH_LARGER * amount for match in _EVALUATION_BATCH.finditer(subject.text))


def is_named_for_data_parallel(subject: Subject) -> bool:
    """Return whether the file's name says that it shows ``DataParallel``, as lessons that compare ways to train do."""
    return bool(_DATA_PARALLEL.search(subject.path.stem))


def is_for_people(subject: Subject) -> bool:
    """Return whether the file's name says that a person works in what it starts, with few GPUs."""
    counts = [gpus_of(job) or 0 for job in subject.jobs]
    return bool(_PURPOSE.search(subject.place)) and max(counts, default=0) < MANY_GPUS
