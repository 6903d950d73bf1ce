"""Which Python modules run while a GPU is held: programs that compute on one, and the modules that these import."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.base import LAUNCHERS
from gpulint.documents.python import walk
from gpulint.identifiers import words_in
from gpulint.launch.job_index import JobIndex
from gpulint.programs import cpu_workers
from gpulint.programs.own_names import names_only_own_classes
from gpulint.query import query, stored
from gpulint.semantic.hardware_words import GpuWords, is_for_tpu, runs_on_other_hardware
from gpulint.semantic.path_conditions import conditions
from gpulint.training import workflow_steps
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.trainer_config import trains_on_cpu
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, source_text
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_CANDIDATES = 80
"""Most modules that are searched for an import of one module, those of its folder first."""
MAX_USERS = 20
"""Most modules that import one which are asked for their hardware."""
MAX_IMPORTS = 3
"""How many imports a program may be away from a module that it runs."""

_SEPARATE = regex.compile(
    r"(^|[_-])(download|downloads|downloader|fetch|prefetch|prepare|convert(er)?|export(er)?|setup|upload|"
    r"stage|staging|cache|vocab|vocabulary|preprocess|preprocessing)([_-]|$)",
    re.IGNORECASE,
)
_PREPARES = regex.compile(r"(data_?generators?|data_?prep\w*|pre_?process\w*)$", re.IGNORECASE)
"""Folders whose programs make the data that others train on."""
_HANDLERS = frozenset({"predict_fn", "output_fn", "transform_fn"})
"""What SageMaker's endpoints call; those of AzureML find their model by a variable."""
_PROGRAM = frozenset({"ArgumentParser", "parse_args", "option", "Fire"})
"""What reads a program's options."""
_INSTALLED = frozenset({"setup.py", "hubconf.py", "noxfile.py", "conftest.py"})
_CALLS_TRAINING = regex.compile(rb"[Tt]rain\w*\(")
_TAKEN = regex.compile(rb"\.to\(\s*(?:\w+\.)*(?:device|DEVICE)\b|\bdevice\s*=\s*(?:\w+\.)*(?:device|DEVICE)\b")
"""A device that something is moved to or made on (``Model(device=device)``)."""
_SETS_UP = regex.compile(rb"\boptim\b|\bload_state_dict\(")
"""What is done to a model that the program has made; ``torch.load`` alone may give one that was saved on a GPU."""
_ON_CPU = regex.compile(r"(^|=)[\"']?cpu[\"']?$")
_CHOOSES = regex.compile(rb"^[^#\n]*(?:device|DEVICE)[^#\n]{0,300}\bcuda\b", re.MULTILINE)


@stored("programs that compute on a GPU")
def _computes(project: Project, path: Path) -> bool:
    return project.fact(GpuPrograms).computes(path)


class GpuPrograms:
    """Which modules of one project are part of a program that uses a GPU."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db
        self.words = project.models.derived(GpuWords)

    @query
    def runs_on_gpu(self, module: ModuleIndex) -> bool:
        """Return whether the module runs in a program that computes on a GPU."""
        if self._project.kind(module.path) in LAUNCHERS:
            return self._runs_inline(module)
        return (
            not self._project.is_test(module.path)
            and module.path.name not in _INSTALLED
            and not self.is_elsewhere(module)
            and self._runs(module)
            and not cpu_workers.only_in_cpu_images(self._project, module.path)
        )

    def is_elsewhere(self, module: ModuleIndex) -> bool:
        """Return whether a module is for TPUs or for workers without GPUs, or makes its trainers for the CPU."""
        return (
            runs_elsewhere(module)
            or trains_on_cpu(self._project, (module,))
            or self._is_handed_cpu(module)
            or self.is_kept_off(module)
        )

    @query
    def is_kept_off(self, module: ModuleIndex) -> bool:
        """Return whether all programs that import a module hide the GPUs, or run it in workers without any."""
        if b"__main__" in self._project.data(module.path) or self._is_started(module.path):
            return False
        users = list(islice(self.users(module.path), MAX_USERS + 1))
        programs = [user for user in users if self._project.contains(user, b"__main__") or self._is_started(user)]
        if not 0 < len(programs) <= MAX_USERS or not any(self._may_hide(user) for user in programs):
            return False
        found = map(self._project.module_at, programs)
        return all(program is not None and cpu_workers.hides_gpus(program) for program in found)

    def _may_hide(self, path: Path) -> bool:
        return cpu_workers.may_use_no_gpus(self._project.data(path))

    @query
    def _is_handed_cpu(self, module: ModuleIndex) -> bool:
        """Return whether a module takes its device from programs that are all for the CPU."""
        text = module.syntax.source.text.encode("utf-8", "replace")
        if _TAKEN.search(text) is None or b"cuda" in text or b"__main__" in text:
            return False
        users = list(islice(self.users(module.path), MAX_USERS))
        return bool(users) and all(map(self._elsewhere, users))

    def runs_on_gpu_at(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether a place of the module runs in such a program. Importers do not run what only the main program
        does."""
        if any(holds and "__main__" in source_text(module, test) for test, holds in conditions(module, node)):
            return self.runs_on_gpu(module) and self._computes(module.path)
        return self.runs_on_gpu(module)

    def tries_itself(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether a place only runs when a module that others import for its classes is started itself, without
        options."""
        return (
            bool(module.classes)
            and not module.calls_by_name.keys() & _PROGRAM
            and any(holds and "__main__" in source_text(module, test) for test, holds in conditions(module, node))
            and any(self.users(module.path))
        )

    def tries_itself_in_no_job(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether that is so, and jobs of the tree start only what imports the module."""
        if not self.tries_itself(module, node):
            return False
        users = islice(self.users(module.path), MAX_USERS)
        return not self._is_started(module.path) and any(map(self._is_started, users))

    def tries_itself_on_cpu(self, module: ModuleIndex, node: ast.AST) -> bool:
        """Return whether a place only runs when a module that others import is started itself, and neither names a GPU
        there nor in what it mentions of itself and of other modules of the tree."""
        return self.tries_itself(module, node) and all(
            not self.words.name_gpu(frozenset(words_in(text)), text) for text in _run_by_main(self._project, module)
        )

    def _is_started(self, path: Path) -> bool:
        """Return whether a job starts a program itself."""
        return any(item.start.program == path for item in self._project.fact(JobIndex).launches_of(path))

    def is_separate(self, path: Path) -> bool:
        """Return whether a file's name says that it is a separate step (``download_data.py``), run before GPUs are
        held."""
        return bool(_SEPARATE.search(path.stem) or _PREPARES.match(path.parent.name))

    @query
    def module_computes(self, module: ModuleIndex) -> bool:
        """The same of a module's words."""
        return self.words.text_computes(module.syntax.source.text.encode("utf-8", "replace"))

    def _runs_inline(self, module: ModuleIndex) -> bool:
        """Return whether Python within a launcher computes on a GPU that a job holds."""
        from gpulint.programs.gpu_jobs import GpuJobs

        return (
            self.module_computes(module)
            and not self.is_elsewhere(module)
            and self._project.fact(GpuJobs).holding_document(module.path) is not None
        )

    def _runs(self, module: ModuleIndex) -> bool:
        text = module.syntax.source.text.encode("utf-8", "replace")
        if self._names_gpu(module.path, text) or self._takes_device(module.path, text):
            aside = self.is_separate(module.path) or _serves(module)
            return not (aside and not self._project.fact(LoopContexts).has_training_step(module))
        users = [user for user in self.users(module.path) if not self.is_separate(user)]
        if any(map(self._computes, users)):
            return True
        return not self.is_separate(module.path) and (
            any(map(self._drives, users)) or self._is_given_device(text, users)
        )

    def _computes(self, path: Path) -> bool:
        return _computes(self._project, path)

    def computes(self, path: Path) -> bool:
        """Return whether a program computes on a GPU, by its text and by jobs that start it."""
        text = self._project.data(path)
        found = self._names_gpu(path, text) or self._takes_device(path, text)
        return found and not (cpu_workers.may_use_no_gpus(text) and self._elsewhere(path))

    def _names_gpu(self, path: Path, text: bytes) -> bool:
        """Return whether the words of a program say that it computes on a GPU. A class of the tree that has the name of
        a library's class does not."""
        return self.words.computes_on_gpu(text) and not names_only_own_classes(self._project, path)

    def _drives(self, program: Path) -> bool:
        """Return whether a program leaves training to a module that it imports (``TrainLoop(model, data).run()``)."""
        if not self._project.contains(program, b"__main__") or not self._project.finds(program, _CALLS_TRAINING):
            return False
        return any(
            self._project.word_index.holds(file, b"backward") and self._computes(file)
            for file in self._project.imported(program)
        )

    def _elsewhere(self, path: Path) -> bool:
        module = self._project.module_at(path)
        return module is not None and runs_elsewhere(module)

    def _takes_device(self, path: Path, text: bytes) -> bool:
        """Return whether a program computes on a device that an imported module chooses (``.to(args.device)``), or on
        one of its configuration where a job starts it on GPUs."""
        return (
            _TAKEN.search(text) is not None
            and self.words.text_computes(text)
            and not runs_on_other_hardware(text)
            and (
                any(self._project.finds(file, _CHOOSES) for file in self._project.imported(path))
                or self._gets_gpus(path)
            )
        )

    def _gets_gpus(self, path: Path) -> bool:
        """Return whether a job starts a program on GPUs, and does not tell it to use the CPU."""
        return any(
            item.job.gpus is not None
            and item.job.gpus.value != 0
            and not any(_ON_CPU.search(word.text) for word in item.start.launch.args)
            for item in self._project.fact(JobIndex).launches_of(path)
        )

    def _is_given_device(self, text: bytes, users: list[Path]) -> bool:
        """Return whether a module computes on a device that a program importing it chooses
        (``train(model, device=torch.device("cuda"))``)."""
        return (
            _TAKEN.search(text) is not None
            and self.words.text_computes(text)
            and not runs_on_other_hardware(text)
            and any(self._project.finds(user, _CHOOSES) and not self._elsewhere(user) for user in users)
        )

    @query
    def stays_on_cpu(self, module: ModuleIndex) -> bool:
        """Return whether a program of PyTorch that loads or optimizes its model names no device, nor a library that
        chooses one: neither do the module, what it uses of those that it imports, and the modules that import it."""
        around = [module.syntax.source.text.encode("utf-8", "replace")]
        if self.words.names_device(around[0]):
            return False
        around += (self._project.data(user) for user in self.users(module.path))
        return (
            any(map(_SETS_UP.search, around))
            and not any(map(self.words.names_device, around))
            and not any(self._lends_device(module, path) for path in self._project.imported(module.path))
        )

    def _lends_device(self, module: ModuleIndex, path: Path) -> bool:
        """Return whether an imported file names a device; of one that is a program itself, only in the functions and
        classes that the module names."""
        text = self._project.data(path)
        if not self.words.names_device(text):
            return False
        other = self._project.module_at(path) if b"__main__" in text else None
        if other is None:
            return True
        source = module.syntax.source.text
        lent = (node for node in other.syntax.tree.body if isinstance(node, (*FUNCTIONS, ast.ClassDef)))
        return any(
            self.words.names_device(ast.unparse(node).encode("utf-8", "replace"))
            for node in lent
            if node.name in source
        )

    def users(self, file: Path) -> Iterator[Path]:
        """Modules of the tree that import this one, also through others, the nearest first; tests are left out."""
        seen, level = {file}, [file]
        for _ in range(MAX_IMPORTS):
            level = [user for imported in level for user in self._importers(imported) if user not in seen]
            level = list(dict.fromkeys(level))
            seen.update(level)
            yield from (user for user in level if not self._project.is_test(user))

    @query
    def _importers(self, file: Path) -> list[Path]:
        """Modules of the tree that import this one themselves."""
        stem = word_of(file.parent.name if file.name == "__init__.py" else file.stem)
        found: list[Path] = []
        tried = 0
        # The methods of paths take ten times as long.
        near = os.path.join(file.parent.parent if file.name == "__init__.py" else file.parent, "")  # noqa: PTH118
        for path in sorted(self._project.word_index.mentioning(stem), key=lambda path: not str(path).startswith(near)):
            if path == file:
                continue
            tried += 1
            if tried > MAX_CANDIDATES:
                break
            if path.suffix == ".py" and stem not in self._project.word_index.imported(path):
                continue
            if file in self._project.imported(path):
                found.append(path)
        return found


def _run_by_main(project: Project, module: ModuleIndex) -> Iterator[bytes]:
    """The text of what a module does only if it is started itself, and of what that mentions."""
    blocks = [
        part for part in module.syntax.tree.body if isinstance(part, ast.If) and "__main__" in ast.unparse(part.test)
    ]
    named = {part.id for block in blocks for part in walk(block) if isinstance(part, ast.Name)}
    own = [part for part in module.syntax.tree.body if isinstance(part, FUNCTIONS) and part.name in named]
    named.update(part.id for function in own for part in walk(function) if isinstance(part, ast.Name))
    classes = [part for part in module.classes if part.name in named]
    for node in (*blocks, *own, *classes):
        yield ast.unparse(node).encode("utf-8", "replace")
    for binding in module.imports:
        bound = binding.target.rpartition(".")
        if bound[2] in named and (path := project.module_path(bound[0], module.path)) is not None:
            yield project.data(path)


@query
def runs_elsewhere(module: ModuleIndex) -> bool:
    """Return whether a module is written for TPUs, or for workers without GPUs."""
    return is_for_tpu(module) or cpu_workers.use_no_gpus(module) or workflow_steps.all_without_gpu(module)


def _serves(module: ModuleIndex) -> bool:
    """Return whether a module answers the requests of an endpoint, which is no job."""
    return "AZUREML_MODEL_DIR" in module.strings or any(function.name in _HANDLERS for function in module.functions)
