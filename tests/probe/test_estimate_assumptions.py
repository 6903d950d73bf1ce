"""What ``gpulint estimate -- python train.py`` assumes where values, data, models or modules are not at hand."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
from pathlib import Path
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpulint.cli import main
from tests.probe.test_estimate_script import TRAIN, estimated, write

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("scripts_in_forks")


def in_the_loop(lines: str) -> str:
    """The training script with more lines before its backward."""
    indent = " " * 8
    added = "".join(f"{indent}{line}\n" for line in dedent(lines).strip().splitlines())
    return dedent(TRAIN).replace(f"{indent}loss.backward()\n", f"{added}{indent}loss.backward()\n")


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("assert len(torch.unique(model(x).argmax(1))) == 1", "one distinct value"),
        ("loss = loss + model(x)[model(x) > 0].sum(); assert model(x)[model(x) > 0].shape == (80,)", "as all elements"),
        ("assert (model(x) > 0).nonzero().shape == (80, 2)", "as all elements"),
        ("assert torch.masked_select(x, x > model(x).sum()).shape == (512,)", "as all elements"),
        ("z = torch.zeros(8, device=device); m = model(x)[:, 0] > 0; z[m] = model(x)[m, 1]", "as all elements"),
        ("assert torch.bincount(model(x).argmax(1), minlength=10).shape == (10,)", "one distinct value"),
    ],
)
def test_sizes_that_depend_on_values_are_assumed_with_their_line(
    tmp_path: Path, lines: str, note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = estimated(capsys, "--", "python", write(tmp_path, in_the_loop(lines)))
    assert any(note in text and "train.py:" in text for text in found["notes"])


def test_what_a_script_saves_it_loads_again_onto_the_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = """
    torch.save({"images": torch.arange(6), "state": model.state_dict()}, "saved.pt")
    loaded = torch.load("saved.pt", map_location=torch.device("cuda"))
    assert loaded["images"].tolist() == [0, 1, 2, 3, 4, 5] and loaded["images"].is_cuda
    assert torch.load("saved.pt", map_location="cpu")["images"].device.type == "cpu"
    nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)).to(device).load_state_dict(loaded["state"])
    """
    estimated(capsys, "--", "python", write(tmp_path, in_the_loop(lines)))
    assert not Path("saved.pt").exists()


def test_folders_that_a_script_makes_it_can_list_and_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("own", "scratch"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    folder = tmp_path / "own" / "logs"
    lines = f"""
    import os
    os.makedirs({str(folder)!r}, exist_ok=True)
    assert os.access({str(folder)!r}, os.W_OK)
    open({str(folder / "a")!r}, "w").close()
    assert os.listdir({str(folder)!r}) == [entry.name for entry in os.scandir({str(folder)!r})] == ["a"]
    """
    estimated(capsys, "--", "python", write(tmp_path / "own", in_the_loop(lines)))
    assert not folder.exists()


def test_libraries_and_commands_cannot_write_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    confine = pytest.importorskip("gpulint_probe.estimator.script.confine")
    pool = multiprocessing.get_context("fork").Pool(1)
    is_confined = pool.apply(confine.confine, (str(tmp_path),))
    pool.close()  # what ends a pool by force may wait for a lock that its process held when it was forked
    pool.join()
    if is_confined is False:
        pytest.skip("this kernel cannot refuse writes")
    lines = f"""
    import ctypes, subprocess, tempfile
    libc = ctypes.CDLL(None)
    assert libc.creat({str(tmp_path / "a")!r}.encode(), 0o600) == -1
    assert subprocess.call(["touch", {str(tmp_path / "b")!r}], stderr=subprocess.DEVNULL) != 0
    assert libc.creat((tempfile.gettempdir() + "/c").encode(), 0o600) >= 0
    """
    estimated(capsys, "--", "python", write(tmp_path, in_the_loop(lines)))
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_images_of_a_known_data_set_without_data_are_made_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("PIL")
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "datasets.py").write_text(
        "from torch.utils.data import Dataset\n\n\nclass CIFAR10(Dataset):\n"
        "    def __init__(self, root, train=True, transform=None):\n"
        "        raise RuntimeError('Dataset not found')\n"
    )
    lines = """
    from torchvision.datasets import CIFAR10
    data = CIFAR10("data", train=False, transform=lambda image: image.size)
    assert data[11] == ((32, 32), 1) and len(data) == 10000
    """
    found = estimated(capsys, "--", "python", write(tmp_path, in_the_loop(lines)))
    assert any("images of 32x32 in 10 classes are made up (train.py:" in note for note in found["notes"])
    assert found["loader"] is None


def test_quick_kernels_make_what_the_meta_kernels_make() -> None:
    from gpulint_probe.estimator.shapes import output_of

    aten = torch.ops.aten
    x = torch.empty(4, 6, 8, device="meta")
    row, each = torch.empty(8, device="meta"), torch.empty(4, 6, 1, device="meta")
    a, b = torch.empty(6, 8, device="meta"), torch.empty(8, 3, device="meta")
    calls = [
        (aten.mul.Tensor, (x, row)), (aten.add.Tensor, (each, x)), (aten.mul.Tensor, (x.mT, x.mT)),
        (aten.addmm.default, (torch.empty(3, device="meta"), a, b)), (aten.neg.default, (x[..., 4:],)),
        (aten.pow.Tensor_Scalar, (x, 2)), (aten.rsqrt.default, (each,)),
    ]  # fmt: skip
    for function, arguments in calls:
        known, out = output_of(function, arguments, {})
        wanted = function(*arguments)
        assert known
        assert (out.shape, out.dtype, out.stride()) == (wanted.shape, wanted.dtype, wanted.stride())
    for function, arguments in (
        (aten.mul.Tensor, (row, torch.empty(6, 1, device="meta"))),
        (aten.neg.default, (x > 0,)),
    ):
        assert output_of(function, arguments, {}) == (False, None)


def test_a_missing_tracker_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import comet_ml\nfrom comet_ml.integration import Watcher\n" + in_the_loop(
        """
        class Own(Watcher): pass
        with comet_ml.start(project="x") as run: run.log({"loss": loss}, step=0); Own()
        for entry in run.entries: raise ValueError
        """
    )
    found = estimated(capsys, "--", "python", write(tmp_path, text))
    assert any("comet_ml is not installed" in note for note in found["notes"])


def test_a_tracker_that_a_script_can_do_without_stays_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "try:\n    import comet_ml\nexcept ImportError:\n    comet_ml = None\n"
        "from importlib.util import find_spec\nassert comet_ml is None\n"
    )
    estimated(capsys, "--", "python", write(tmp_path, text + dedent(TRAIN)))


def test_a_missing_module_that_computes_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--", "python", write(tmp_path, "import no_such_layers\n" + dedent(TRAIN))]) == 2
    assert "train.py:1): ModuleNotFoundError: No module named 'no_such_layers'" in capsys.readouterr().err


def test_variables_before_a_command_are_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import os\nassert os.environ['DEPTH'] == '3'\n" + dedent(TRAIN)
    estimated(capsys, "--", "DEPTH=3", "python", write(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("google-bert/bert-base-cased", {"model_type": "bert", "hidden_size": 768, "vocab_size": 28996}),
        ("gpt2", {"model_type": "gpt2", "n_layer": 12}),
        ("meta-llama/Llama-2-7b-chat-hf", {"num_hidden_layers": 32, "vocab_size": 32000}),
        ("Qwen/Qwen2.5-0.5B-Instruct", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
        ("mistralai/Mistral-7B-Instruct-v0.3", {"sliding_window": None}),
    ],
)
def test_configurations_of_public_models_are_known(name: str, wanted: dict[str, Any]) -> None:
    from gpulint_probe.estimator.script.hub.models import files_of

    files = files_of(name)
    assert files is not None
    assert wanted.items() <= files["config.json"].items()


def test_parts_of_pipelines_are_known_and_other_names_are_not() -> None:
    from gpulint_probe.estimator.script.hub.models import files_of

    files = files_of("stabilityai/stable-diffusion-xl-base-1.0")
    assert files is not None
    assert {"unet/config.json", "vae/config.json", "scheduler/scheduler_config.json"} <= files.keys()
    assert files["text_encoder_2/config.json"]["hidden_size"] == 1280
    assert files_of("someone/bert-like") is None


def test_the_hub_answers_only_for_what_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpulint_probe.estimator.script.hub.models import Hub

    cache = tmp_path / "cache"
    (cache / "models--gpt2" / "snapshots" / "abc" / "x").mkdir(parents=True)
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    notes: list[str] = []
    hub = Hub(tmp_path / "hub", notes.append, lambda: " (train.py:3)")
    real: list[str] = []
    module = ModuleType("huggingface_hub.file_download")
    module.hf_hub_download = lambda repo_id, filename, **_: real.append(repo_id)  # type: ignore[attr-defined]
    with contextlib.ExitStack() as stack:
        hub.actions(stack)["huggingface_hub.file_download"](module)
        for repository in ("gpt2", "someone/else", str(tmp_path)):
            module.hf_hub_download(repository, "config.json")
        place = module.hf_hub_download("runwayml/stable-diffusion-v1-5", "config.json", subfolder="unet")
    assert real == ["gpt2", "someone/else", str(tmp_path)]
    assert json.loads(Path(place).read_text())["cross_attention_dim"] == 768
    assert notes == [
        "runwayml/stable-diffusion-v1-5 is not at hand: its published configuration is assumed (train.py:3)"
    ]


def test_a_model_has_its_own_output_layer_where_its_file_says_so() -> None:
    from gpulint_probe.estimator.script.weights import _untie

    class Model(torch.nn.Module):
        config_class = SimpleNamespace(get_config_dict=lambda place: ({"tie_word_embeddings": place == "tied"}, {}))

        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(8, 2), torch.nn.Linear(2, 8, bias=False)
            self.head.weight = self.embedding.weight

        def get_output_embeddings(self) -> torch.nn.Module:
            return self.head

    sizes = {}
    for place in ("tied", "untied"):
        model = Model()
        _untie(model, place)
        sizes[place] = sum(parameter.numel() for parameter in model.parameters())
    assert sizes == {"tied": 16, "untied": 32}


@pytest.mark.parametrize(
    ("name", "texts", "wanted"),
    [
        ("bert-base-cased", ("w7 w8",), [101, 7, 8, 102]),
        ("bert-base-cased", ("w7", "w8"), [101, 7, 102, 8, 102]),
        ("gpt2", ("w7 unheard",), [7, 1000]),
        ("t5-small", ("w7",), [7, 1]),
        ("facebook/opt-125m", ("w7",), [2, 7]),
    ],
)
def test_tokenizers_that_are_not_here_give_a_token_for_each_word(
    tmp_path: Path, name: str, texts: tuple[str, ...], wanted: list[int]
) -> None:
    pytest.importorskip("transformers")
    from gpulint_probe.estimator.script.hub.models import Hub
    from gpulint_probe.estimator.script.hub.tokenizers import made_up

    place = Path(Hub(tmp_path, lambda _: None, str).place(name))
    tokenizer = made_up(place, name, {"pad_token": "<new>"})
    assert tokenizer(*texts)["input_ids"] == wanted
    assert tokenizer.pad_token_id == len(tokenizer) - 1


class Rows:
    """As much of datasets.Dataset as is asked of it."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns

    @classmethod
    def from_dict(cls, columns: dict[str, list[Any]], features: Any) -> Rows:
        assert features.keys() == columns.keys()
        return cls(columns)


def load_dataset(folder: Path, notes: list[str]) -> Any:
    from gpulint_probe.estimator.script.hub import datasets

    def real(path: str, *_: Any, **__: Any) -> Any:
        if path == "json":
            return "real"
        raise ConnectionError(f"Couldn't reach {path}")

    library: Any = SimpleNamespace(
        load_dataset=real, load=SimpleNamespace(load_dataset=real), disable_progress_bars=lambda: None, disable_caching=lambda: None, Dataset=Rows,
        DatasetDict=dict, Features=dict, Value=str, ClassLabel=lambda num_classes: num_classes, Sequence=list,
        Image=lambda: "image",
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        datasets.actions(folder, notes.append, notes.append, str, stack)["datasets"](library)
        return library.load_dataset


def test_rows_of_public_data_sets_are_made_up(tmp_path: Path) -> None:
    notes: list[str] = []
    load = load_dataset(tmp_path, notes)
    found = load("nyu-mll/glue", "mrpc")
    assert found.keys() == {"train", "validation", "test"}
    assert len(found["train"].columns["sentence1"][0].split()) == 24
    assert set(found["train"].columns["label"]) == {0, 1}
    assert len(load("imdb", split="train").columns["text"]) > len(load("imdb", split="train[:10%]").columns["text"])
    assert load("json", data_files="own.json") == "real"
    assert any("sentence1 of 24 words" in note for note in notes)


def test_a_data_set_of_unknown_columns_is_an_error(tmp_path: Path) -> None:
    from gpulint_probe.estimator.errors import EstimateError

    with pytest.raises(EstimateError, match="columns of the data set someone/rows are not known"):
        load_dataset(tmp_path, [])("someone/rows")
    with pytest.raises(ConnectionError):
        load_dataset(tmp_path, [])("csv", data_files="missing.csv")
