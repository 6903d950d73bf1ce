"""Modules that are missing on this machine and that a script needs to report, and not to train."""

# mypy: disable-error-code="misc, no-untyped-call, no-any-return"

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from gpulint_probe.estimator.script.failures import OwnCode

# Trackers, plots, progress bars, scores of finished models, and clients of services.
_NAMES = frozenset(
    "wandb tensorboard tensorboardX comet_ml neptune mlflow aim clearml swanlab trackio dvclive visdom codecarbon "
    "sacred evaluate nltk rouge_score sacrebleu seqeval jiwer bert_score pycocoevalcap lpips matplotlib seaborn "
    "plotly pandas_profiling tqdm progress progressbar colorama termcolor colorlog coloredlogs pyfiglet loguru "
    "tabulate prettytable openai anthropic cohere boto3 botocore google slack_sdk telegram requests gradio streamlit "
    "torchinfo torchsummary torchviz thop fvcore ptflops nvidia_smi pynvml GPUtil gpustat memory_profiler "
    "line_profiler ipdb pudb icecream rich hydra_colorlog".split()
)


class _Nothing:
    """Whatever is asked of a missing module: callable, a context, a base class, an empty sequence."""

    def __init__(self, name: str) -> None:
        self.__dict__["__name__"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _Nothing(f"{self.__name__}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        return

    def __call__(self, *args: Any, **options: Any) -> Any:
        # A decorator returns what it decorates.
        return args[0] if len(args) == 1 and not options and callable(args[0]) else _Nothing(self.__name__)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        return

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, key: Any) -> Any:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        return

    def __float__(self) -> float:
        return 0.0

    __int__ = __index__ = __len__


class _Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, own: OwnCode, note: Callable[[str], None]) -> None:
        self._own = own
        self._note = note
        self._given: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = name.partition(".")[0]
        if top not in _NAMES or (top not in self._given and not self._needed()):
            return None
        self._given.add(top)
        self._note(f"{top} is not installed: what the script does with it is skipped")
        return importlib.machinery.ModuleSpec(name, self, origin="gpulint estimate", is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__

        def missing(attribute: str) -> Any:
            if attribute.startswith("__") and attribute.endswith("__"):
                raise AttributeError(attribute)
            return _iterated if name == "tqdm" or name.startswith("tqdm.") else _Nothing(f"{name}.{attribute}")

        module.__getattr__ = missing  # type: ignore[method-assign]

    def _needed(self) -> bool:
        """Return whether the script's own code imports now, and has no way to do without."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file != __file__ and "importlib" not in file and not file.startswith("<"):
                return file in self._own and frame.f_lineno not in _excused(file)
            frame = frame.f_back
        return False


def _iterated(items: Any = (), *_: Any, **__: Any) -> Any:
    """A progress bar that shows nothing."""
    return items if hasattr(items, "__iter__") else _Nothing("tqdm")


@functools.cache
def _excused(file: str) -> frozenset[int]:
    """The lines of a program on which an import may fail."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(_catches(handler.type) for handler in node.handlers):
            found |= {line for child in node.body for line in range(child.lineno, (child.end_lineno or 0) + 1)}
    return frozenset(found)


def _catches(kind: ast.expr | None) -> bool:
    names = {node.id for node in ast.walk(kind) if isinstance(node, ast.Name)} if kind is not None else set()
    return kind is None or bool(names & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


def install(own: OwnCode, note: Callable[[str], None], stack: contextlib.ExitStack) -> None:
    """Answer such imports of the script until ``stack`` is closed."""
    finder = _Missing(own, note)
    sys.meta_path.append(finder)
    stack.callback(sys.meta_path.remove, finder)
