"""The waits of one loop are one finding, which names the lines of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main
from tests.assessment.scans import NO_FIX, costs_much

STEP = """\
import torch
from net import Net, measures

total, right, tops, rows = 0, 0, [], []
model = Net().cuda()
for images, labels in loader:
    output = model(images.cuda())
    loss = criterion(output, labels.cuda())
    loss.backward()
    optimizer.step()
"""
READS = """\
    right += (output.argmax(1) == labels.cuda()).sum().item()
    tops.append(output.max().item())
    total += loss.item()
"""
FOUR = READS + "    tops.append(output.mean().item())\n"
EACH = """\
    for row in output:
        rows.append(row.max().item())
"""


def scanned(
    folder: Path, capsys: pytest.CaptureFixture[str], code: str, impact: str = "medium"
) -> list[dict[str, Any]]:
    options = ["--isolated", "--no-cache", "--exit-zero", "--output-format", "json", "--impact", impact]
    assert main(["scan", *options, "--select", code, str(folder)]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def write(folder: Path, train: str, net: str = "") -> Path:
    (folder / "train.py").write_text(f"{train}print(total, right, tops, rows)\n")
    (folder / "net.py").write_text(net)
    return folder


def test_one_finding_names_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, STEP + READS + EACH)
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    lines = {11, 12, 13, 15}
    others = sorted(lines - {shown["line"]})
    counted = "at least 4 waits, 1 of them in inner loops"
    named = f"{others[0]}, {others[1]} and {others[2]}"
    assert shown["impact"]["basis"] == f"every step, {counted}, also lines {named}"
    assert [place["line"] for place in shown["related"]] == others


def test_the_others_are_there_at_low_impact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, STEP + READS + EACH)
    found = scanned(tmp_path, capsys, "GPU305", "low")
    assert sorted(one["impact"]["level"] for one in found) == ["low", "low", "low", "medium"]
    assert sum("one repair with train.py:" in one["impact"]["basis"] for one in found) == 3


@pytest.mark.parametrize("code", ["GPU305", "GPU306"])
def test_a_few_in_each_step_cost_little(tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str) -> None:
    write(tmp_path, STEP + READS + "    ones = torch.ones(9).cuda()\n")
    assert {one["impact"]["level"] for one in scanned(tmp_path, capsys, code, "low")} == {"low"}


def test_four_in_each_step_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, STEP + FOUR)
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    assert shown["impact"]["basis"].startswith("every step, at least 4 waits")


def test_a_place_under_a_condition_does_not_lead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rare = '    if mode == "paired":\n        other += output.min().item()\n'
    write(tmp_path, STEP + rare + READS)
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    assert shown["line"] > 12 and 12 in [place["line"] for place in shown["related"]]


def test_methods_that_override_each_other_are_not_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read = "part = self.net(output); part.backward(); self.total += part.item()"
    body = "import torch\n\n" + "".join(
        f"class {name}:\n    def loss(self, output):\n        {read}\n        {read}\n        return output.mean()\n\n"
        for name in ("First", "Second", "Third")
    )
    train = "chosen = First() if one else Second() if two else Third()\n"
    head = "from net import First, Second, Third\n" + train
    write(tmp_path, head + STEP + "    loss = chosen.loss(output)\n", body)
    found = scanned(tmp_path, capsys, "GPU305", "low")
    assert found
    assert not any(costs_much(one["impact"]) for one in found)
    assert all(one["impact"]["basis"].startswith("every step, at least 2 waits") for one in found)


def test_places_in_other_files_have_their_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    helper = "import torch\n\nNet = torch.nn.Linear\n\ndef measures(output, labels):\n"
    names = ("min", "max", "mean")
    helper += "".join(f"    {name} = [row.{name}().item() for row in output]\n" for name in names)
    train = STEP + READS + EACH + "    tops.append(measures(output, labels))\n"
    write(tmp_path, train, f"{helper}    return {', '.join(names)}\n")
    shown = scanned(tmp_path, capsys, "GPU305")
    assert [Path(one["path"]).name for one in shown] == ["net.py"]
    assert "train.py:11" in shown[0]["impact"]["basis"]


def test_a_value_that_the_step_needs_speaks_for_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests = "".join(
        f"    part = model(images.cuda())\n    part.backward()\n    if part.item() > {n}: stop()\n" for n in range(5)
    )
    sums = "".join("    part = model(images.cuda())\n    part.backward()\n    s.put(part.cpu())\n" for _ in range(12))
    write(tmp_path, STEP + tests + sums)
    worth = [one for one in scanned(tmp_path, capsys, "GPU305", "low") if costs_much(one["impact"])]
    assert [one["line"] for one in worth] == [*range(28, 64, 3)]
    assert all(one["impact"]["basis"].startswith("every step, at least 17 waits") for one in worth)


def test_many_lines_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, STEP + 10 * "    tops.append(loss.item())\n" + EACH)
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    assert shown["impact"]["basis"].endswith("and 4 more")
    assert len(shown["related"]) == 10


def test_fixes_of_all_of_them_are_applied(tmp_path: Path) -> None:
    write(tmp_path, STEP + READS + "print(total, right, tops)\n")
    assert main(
        ["fix", "--isolated", "--unsafe-fixes", "--allow-no-vcs", "--impact", "low", "--apply", str(tmp_path)]
    ) in (0, 1)
    assert ".item()" not in (tmp_path / "train.py").read_text().replace("value.item() for value in", "")


@pytest.mark.parametrize(
    ("extra", "level"),
    [
        ("    norms = [g['params'][0].grad.norm().item() for g in optimizer.param_groups]\n", "low"),
        ("    norms = [p.grad.norm().item() for p in model.parameters()]\n", "medium"),
        (
            "    for group in optimizer.param_groups:\n        for part in group['params']:\n"
            "            tops.append(part.grad.norm().item())\n",
            "medium",
        ),
        ("    total += loss.item()\n    shown = {name: value.item() for name, value in losses.items()}\n", "medium"),
        (
            "    for part in range(len(images) // 8):\n"
            "        again = model(images[part * 8 : part * 8 + 8].cuda())\n"
            "        seen += again.mean().item()\n",
            "low",
        ),
        (
            "    for at in reversed(range(steps)):\n"
            "        noise = prior.unet(noise, at)\n        seen += noise.mean().item()\n",
            "low",
        ),
        ("    for part in output:\n        total += part.mean().item()\n", "medium"),
        (
            "    for part in output:\n        total += part.mean().item()\n"
            "    with multiprocessing.Pool(8) as pool:\n        games = pool.map(play, range(64))\n",
            "low",
        ),
    ],
)
def test_rounds_of_inner_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: str, level: str) -> None:
    write(tmp_path, STEP + extra)
    assert level in {one["impact"]["level"] for one in scanned(tmp_path, capsys, "GPU305", "low")}
    assert bool(scanned(tmp_path, capsys, "GPU305")) is (level == "medium")


def test_the_cache_emptied_in_a_loop_is_one_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, STEP + "    torch.cuda.empty_cache()\n    gc.collect()\n    torch.cuda.empty_cache()\n")
    (tmp_path / "train.py").write_text("import gc\n" + (tmp_path / "train.py").read_text())
    (shown,) = scanned(tmp_path, capsys, "GPU207")
    assert shown["impact"]["basis"] == "every step, the memory cache is emptied, also lines 13 and 14"


def test_the_costly_call_leads_and_names_the_others_in_the_order_of_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "    log.debug('%s of %s: a batch of this size was taken, and the next one follows', '{}', len(loader))\n"
    freed = "    gc.collect()\n    torch.cuda.empty_cache()\n    gc.collect()\n"
    program = "import gc\n" + STEP + said.format("a") + freed + said.format("b")
    write(tmp_path, program)
    (tmp_path / "other.py").write_text(program)
    (shown,) = scanned(tmp_path, capsys, "GPU207")
    assert "empty_cache" in shown["message"]
    places = [(Path(one["path"]).name, one["line"] - shown["line"]) for one in shown["related"]]
    assert places[1:] == [("other.py", -1), ("other.py", 1), *(("train.py", number) for number in (-1, 0, 1))]


def test_a_step_is_long_if_it_is_in_all_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What one program calls once after several backward passes, another one calls in each step."""
    call = "from net import measures\n"
    rounds = STEP.replace("for images", "for _ in range(9):\n  for images", 1)
    rounds = rounds.replace("\n    ", "\n      ").replace("      optimizer.step()\n", "  norm = measures(model)\n")
    helper = "from torch.nn import Linear as Net\n\ndef measures(model):\n    return sum(part.norm().item() for part in model.parts)\n"
    write(tmp_path, call + rounds.replace("Net, measures", "Net"), helper)
    assert not scanned(tmp_path, capsys, "GPU305")
    (tmp_path / "other.py").write_text(STEP + "    norm = measures(model)\n")
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    assert (Path(shown["path"]).name, shown["line"]) == ("net.py", 4)


def test_the_place_that_waits_most_leads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = 'config = {"parts": []}\n'
    none = '    for part in config["parts"]:\n        tops.append(losses[part].item())\n'
    write(tmp_path, settings + STEP + none + READS + EACH)
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    assert (tmp_path / "train.py").read_text().splitlines()[shown["line"] - 1] == EACH.splitlines()[1]


def test_waits_beside_many_steps_of_an_environment_cost_little(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rollout = "def rollout(env, model, state):\n    for _ in range(steps):\n        state = env.step(model(state))[0]\n"
    step = STEP.replace(
        "for images, labels in loader:\n", "for _ in range(rounds):\n    images = rollout(env, model, start)\n"
    )
    assert scanned(write(tmp_path, step + READS + EACH), capsys, "GPU305") != []
    assert scanned(write(tmp_path, rollout + "    return state\n\n\n" + step + READS + EACH), capsys, "GPU305") == []


@pytest.mark.parametrize(("comment", "level"), [("Copy the stats (sync point).", "low"), ("Copy the stats.", "medium")])
def test_a_comment_that_names_a_sync_point_shows_a_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], comment: str, level: str
) -> None:
    reads = "    right += (\n        output.max().item()\n        + output.min().item()\n        + output.mean().item()\n    )\n"
    write(tmp_path, STEP + f"    # {comment}\n{reads}    total += loss.item()\n")
    assert bool(scanned(tmp_path, capsys, "GPU305")) is (level == "medium")


@pytest.mark.parametrize(
    ("store", "level"),
    [
        ("pool[rows] = output.cpu().numpy()", "low"),
        ("fresh = output.cpu()\n    pool[rows] = fresh", "low"),
        ("tops.append(output.mean().item())", "medium"),
    ],
)
def test_the_next_step_reads_what_a_pool_on_the_host_gets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], store: str, level: str
) -> None:
    step = STEP.replace("    output =", "    images = pool[rows]\n    output =")
    write(tmp_path, f"{step}{READS}    {store}\n")
    found = scanned(tmp_path, capsys, "GPU305", "low")
    assert any(costs_much(one["impact"]) for one in found) is (level == "medium")
    helps = {one["help"] for one in found}
    assert any("keep what it is stored in on the GPU" in text for text in helps) is (level == "low")


def test_loops_of_a_function_that_one_decorator_keeps_from_recording_are_one_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate = (
        "import torch\nfrom net import Net\n\n\ndef evaluate(loader, other):\n    model = Net().cuda()\n"
        "    model.eval()\n    for images in loader:\n        model(images.cuda())\n"
        "    for images in other:\n        print(model(images.cuda()))\n\n\nevaluate(loader, loader)\n"
    )
    write(tmp_path, evaluate)
    (shown,) = scanned(tmp_path, capsys, "GPU203")
    assert shown["line"] == 8
    assert shown["impact"]["basis"].endswith("also line 10")


@pytest.mark.parametrize("workers", ["0", "8"])
def test_waits_beside_volumes_that_the_step_decodes_cost_little(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    data = (
        "import nibabel as nib\nfrom torch.utils.data import DataLoader, Dataset\n\n\nclass Scans(Dataset):\n"
        "    def __getitem__(self, index):\n        return nib.load(self.paths[index]).get_fdata()[:, :, 3], 1\n\n\n"
        f"loader = DataLoader(Scans(), batch_size=16, num_workers={workers})\n"
    )
    more = "    tops.append(output.min().item())\n    tops.append(output.std().item())\n"
    write(tmp_path, data + STEP + FOUR + more)
    found = [one["impact"] for one in scanned(tmp_path, capsys, "GPU305", "low")]
    assert {one["level"] for one in found} == {"low"}
    assert all(("each step decodes volumes" in one["basis"]) == (workers == "0") for one in found)


def test_waits_beside_videos_that_the_step_decodes_say_videos(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (
        "import decord\nfrom torch.utils.data import DataLoader, Dataset\n\n\nclass Clips(Dataset):\n"
        "    def __getitem__(self, index):\n        return decord.VideoReader(self.paths[index])[:16].asnumpy(), 1\n\n\n"
        "loader = DataLoader(Clips(), batch_size=16)\n"
    )
    write(tmp_path, data + STEP + READS)
    found = [one["impact"] for one in scanned(tmp_path, capsys, "GPU305", "low")]
    assert found
    assert all("each step decodes videos" in one["basis"] for one in found)


CHECKS = """
def check(name, tensor):
    broken = torch.isnan(tensor).any().item()
    endless = torch.isinf(tensor).any().item()
    if broken or endless:
        raise ValueError(name)


def step(images):
    features = encoder(images)
    check("features", features)
    hidden = decoder(features)
    check("hidden", hidden)
    logits = head(hidden)
    check("logits", logits)
    loss = logits.mean()
    check("loss", loss)
    loss.backward()
    optimizer.step()
    return loss.item(), logits.max().item()


for images in loader:
    history.append(step(images.cuda()))
"""


def test_a_helper_waits_in_each_call_that_a_step_makes_for_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "import torch\n\nencoder = Encoder().cuda()\ndecoder = Decoder().cuda()\nhead = Head().cuda()\n" + CHECKS
    write(tmp_path, text)
    found = scanned(tmp_path, capsys, "GPU305", "low")
    assert [one["message"].split("'")[1] for one in found[:2]] == [
        "torch.isnan(tensor).any().item()",
        "torch.isinf(tensor).any().item()",
    ]
    assert {one["impact"]["basis"] for one in found} == {f"every step, at least 10 waits in 4 places, {NO_FIX}"}


def test_one_round_takes_one_branch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The waits that are counted are those of one way through the step."""
    write(
        tmp_path,
        STEP
        + "    if len(labels) > 8:\n"
        + READS.replace("    ", "        ")
        + "    else:\n"
        + READS.replace("    ", "        "),
    )
    found = scanned(tmp_path, capsys, "GPU305", "low")
    assert [one["impact"]["basis"].split(", ")[1] for one in found] == ["at least 3 waits"] * 6


@pytest.mark.parametrize(
    ("test", "level", "told"),
    [
        ("if (labels > 0).sum() == 0:", "medium", "at least 4 waits"),
        ("if len(labels) == 0:", "medium", "at least 4 waits"),
        ("if len(labels) > 8:", "medium", "up to 6 waits"),
        ("if (labels > 0).any():", "low", "at least 6 waits"),
    ],
)
def test_what_few_rounds_reach_does_not_count_as_what_all_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str, level: str, told: str
) -> None:
    more = "        others += output.min().item()\n        last.append(output.std().item())\n"
    write(tmp_path, STEP + FOUR + f"    {test}\n{more}print(others, last)\n")
    shown = max(scanned(tmp_path, capsys, "GPU305", "low"), key=lambda one: one["impact"]["level"] == "medium")
    assert (shown["impact"]["level"], shown["impact"]["basis"].split(", ")[1]) == (level, told)


@pytest.mark.parametrize(
    ("inner", "told"),
    [
        ("rows.append(output[k].max().item())", "20 per step"),
        ("if tasks[k] in wanted: rows.append(output[k].max().item())", ""),
        ("if k == limit: break\n        rows.append(output[k].max().item())", ""),
    ],
)
def test_rounds_are_told_that_all_get_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], inner: str, told: str
) -> None:
    write(tmp_path, STEP + "    for k in range(20):\n        " + inner + "\n")
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    assert ("per step" in shown["impact"]["basis"]) is bool(told)
    assert told in shown["impact"]["basis"]


BY_HAND = """\
    journal.put(output.max().item())
    journal.put(loss.item())
    journal.put(output.min().item())
    journal.put(output.mean().item())
"""


@pytest.mark.parametrize(
    "waits",
    [
        BY_HAND,
        BY_HAND + "    journal.put(output.ge(0).cpu().sum())\n",
        BY_HAND + "    journal.put(output.cpu())\n",
        "".join(f"    journal.put(output[{number}].cpu())\n" for number in range(16)),
        "    kept = [row[row > 0.5].median() for row in output]\n",
        "    journal.put([names[row.argmax().item()] for row in output])\n",
        "    journal.put([row.max().item() ** 2 for row in output])\n",
        "    journal.put([names[row.argmax().item()] for row in output])\n    journal.put(output.cpu())\n",
    ],
)
def test_waits_that_only_a_person_could_move_cost_too_little(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], waits: str
) -> None:
    write(tmp_path, STEP.replace("measures", "journal") + waits)
    assert scanned(tmp_path, capsys, "GPU305") == []
    hidden = scanned(tmp_path, capsys, "GPU305", "low")
    assert hidden
    assert all(one["impact"]["basis"].endswith(NO_FIX) for one in hidden)


def test_what_many_waits_cost_is_worth_a_repair_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be high with a fix."""
    copied = "".join(f"    journal.put(output[{number}].cpu())\n" for number in range(48))
    write(tmp_path, STEP.replace("measures", "journal") + copied)
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    assert shown["impact"]["level"] == "medium"
    assert shown["impact"]["basis"].startswith(f"every step, at least 48 waits, {NO_FIX}")


@pytest.mark.parametrize(
    ("read", "advice"),
    [
        ("np.save('last.npy', output.detach().cpu().numpy())", "save it every N iterations"),
        ("texts = tokenizer.batch_decode(output.argmax(1).cpu())", "decode and score the texts every N iterations"),
        ("near = linear_sum_assignment(output.detach().cpu().numpy())", "copy what the solver needs once"),
        ("rows = table[output.detach().cpu().numpy()]", "keep what it looks up on the GPU"),
    ],
)
def test_advice_names_what_a_copy_is_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], read: str, advice: str
) -> None:
    (tmp_path / "net.py").write_text("")
    head = "import numpy as np\nfrom scipy.optimize import linear_sum_assignment\n"
    (tmp_path / "train.py").write_text(f"{head}{STEP}    {read}\n")
    (found,) = scanned(tmp_path, capsys, "GPU305", "low")
    assert found["help"].startswith(advice)


@pytest.mark.parametrize(("tested", "waits"), [("images", False), ("output", True)])
def test_a_test_of_a_batch_on_the_host_waits_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tested: str, waits: bool
) -> None:
    check = f"    if not torch.isfinite({tested}).all():\n        raise ValueError\n"
    write(tmp_path, STEP + check + READS + EACH)
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    assert ("line 11 waits as well" in shown["impact"]["basis"]) is waits


@pytest.mark.parametrize(("condition", "waits"), [("", True), ("    if config.matcher in names:\n    ", False)])
def test_what_waits_in_any_case_is_under_no_condition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str, waits: bool
) -> None:
    solve = f"{condition}    near = linear_sum_assignment(output.detach().cpu().numpy())\n"
    write(tmp_path, "from scipy.optimize import linear_sum_assignment\n" + STEP + READS + EACH + solve)
    shown = scanned(tmp_path, capsys, "GPU305", "low")[0]
    assert ("waits in any case" in shown["impact"]["basis"]) is waits


@pytest.mark.parametrize(
    ("test", "leader"),
    [("if not math.isfinite(value): raise SystemExit(1)", "'torch.cuda.synchronize()'"), ("rows.append(value)", "'")],
)
def test_reads_beside_a_wait_that_stays_follow_a_barrier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str, leader: str
) -> None:
    before, _, _ = STEP.replace("import torch", "import math\nimport torch").partition("    loss.backward()")
    reads = "".join(f"    tops.append(output[{number}].max().item())\n" for number in range(24))
    after = "    loss.backward()\n    optimizer.step()\n    torch.cuda.synchronize()\n"
    write(tmp_path, f"{before}    value = loss.item()\n{reads}    {test}\n{after}")
    (shown,) = scanned(tmp_path, capsys, "GPU305")
    assert shown["message"].startswith(leader)
    assert {shown["line"], *(place["line"] for place in shown["related"])} >= {11, 12, 13}


BATCHES = """\
from torch.utils.data import DataLoader

loader = DataLoader(data, batch_size=SIZE)
"""
OF_OPTION = """\
import argparse
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=NUMBER)
args = parser.parse_args()
loader = DataLoader(data, batch_size=args.batch_size)
"""
OF_FILE = """\
import yaml
from torch.utils.data import DataLoader

with open("config.yaml") as stream:
    config = yaml.safe_load(stream)
loader = DataLoader(data, batch_size=config["train"]["batch_size"])
"""


@pytest.mark.parametrize(
    ("made", "number", "rows", "single"),
    [
        (BATCHES.replace("SIZE", "NUMBER"), 1, "range(output.size(0))", True),
        (BATCHES.replace("SIZE", "NUMBER"), 4, "range(output.size(0))", False),
        (BATCHES.replace("SIZE", "count_samples()"), 1, "range(output.size(0))", False),
        (OF_OPTION, 1, "range(output.shape[0])", True),
        (OF_OPTION, 2, "range(output.shape[0])", False),
        (OF_FILE, 1, "range(output.shape[0])", True),
        (OF_FILE, 8, "range(output.shape[0])", False),
        (OF_FILE, 1, "range(output.shape[2])", False),
        (OF_FILE, 1, "range(output.shape[1])", False),
    ],
)
def test_a_loop_over_the_samples_of_batches_of_one_has_one_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, number: int, rows: str, single: bool
) -> None:
    (tmp_path / "config.yaml").write_text(f"train:\n  batch_size: {number}\n")
    each = f"    for row in {rows}:\n        tops.append(output[:, row].max().item())\n"
    write(tmp_path, made.replace("NUMBER", str(number)) + STEP + each)
    (found,) = scanned(tmp_path, capsys, "GPU305", "low")
    assert ("inner loop" in found["impact"]["basis"]) is not single
    assert (found["impact"]["level"] == "low") is single


def test_outputs_whose_second_dimension_counts_samples_are_known_by_lengths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    each = "    for row in range(output.shape[1]):\n        tops.append(output[: lengths[row], row].max().item())\n"
    write(tmp_path, BATCHES.replace("SIZE", "1") + STEP + each)
    (found,) = scanned(tmp_path, capsys, "GPU305", "low")
    assert "inner loop" not in found["impact"]["basis"]


@pytest.mark.parametrize(
    ("started", "end", "shown"),
    [
        ("    began = time.time()\n", "    torch.cuda.synchronize()\n    spent.append(time.time() - began)\n", False),
        # The clock is read some lines below.
        (
            "    began = time.time()\n",
            "    if torch.cuda.is_available():\n        torch.cuda.synchronize()\n    step += 1\n    print(step)\n"
            "    print(time.time() - began)\n",
            False,
        ),
        # What was taken is the time of something else.
        (
            "    began = time.time()\n    images = images.half()\n    spent.append(time.time() - began)\n",
            "    torch.cuda.synchronize()\n    step += 1\n",
            True,
        ),
        ("", "    torch.cuda.synchronize()\n    step += 1\n", True),
        (
            "    began = time.time()\n",
            "    if step in chosen:\n        torch.cuda.synchronize()\n    step += 1\n",
            True,
        ),
    ],
)
def test_reads_cost_little_in_a_step_that_waits_to_take_the_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], started: str, end: str, shown: bool
) -> None:
    step = "import time\n" + STEP.replace("    output =", f"{started}    output =")
    write(tmp_path, step + FOUR + "    step += 1\n" + end)
    assert any(costs_much(one["impact"]) for one in scanned(tmp_path, capsys, "GPU305", "low")) is shown


def test_a_timed_loop_waits_beside_the_functions_that_it_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reads = ", ".join(f"output.{name}().item()" for name in ("max", "min", "mean", "std", "sum"))
    helper = f"import torch\nclass Net(torch.nn.Module):\n    pass\ndef measures(output, loss):\n    return [{reads}]\n"
    called = "    torch.cuda.synchronize()\n    began = time.time()\n    tops.append(measures(output, loss))\n"
    write(tmp_path, "import time\n" + STEP + called + "    print(time.time() - began)\n", helper)
    (found,) = scanned(tmp_path, capsys, "GPU305", "low")
    assert "train.py:12 waits in any case" in found["impact"]["basis"]


@pytest.mark.parametrize(("given", "shown"), [("next(batches)", False), ("images", True)])
def test_a_read_beside_each_pass_of_a_step_waits_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, shown: bool
) -> None:
    parts = f"""\
import torch
from net import Net

model = Net().cuda()
batches = iter(loader)
total = 0
while step < limit:
    parts = []
    for number in range(args.accumulation):
        parts.append({given})
    for part in parts:
        loss = model(part.cuda(non_blocking=True)).mean()
        loss.backward()
        total += loss.item()
    optimizer.step()
"""
    write(tmp_path, parts)
    (found,) = scanned(tmp_path, capsys, "GPU305", "low")
    assert costs_much(found["impact"]) is shown


CALLERS = """\
import torch
from net import Net

model = Net().cuda()


def update(totals, loss, norm, top):
    totals[0] += loss.item()
    totals[1] += norm.item()
    totals[2] += top.item()


def train():
    for images, labels in loader:
        output = model(images.cuda())
        loss = criterion(output, labels.cuda())
        loss.backward()
        optimizer.step()
        update(totals, loss, torch.tensor([1.0]), torch.tensor([1.0]))


def distill():
    for images, labels in loader:
        output = model(images.cuda())
        loss = criterion(output, labels.cuda())
        loss.backward()
        optimizer.step()
        update(totals, loss, output.norm(), output.max())


train()
distill()
print(totals)
"""


def test_the_waits_of_a_function_are_those_of_one_caller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = scanned(write(tmp_path, CALLERS), capsys, "GPU305", impact="low")
    assert [one["line"] for one in found] == [8, 9, 10]
    assert {one["related"][0]["line"] for one in found} == {28}
    assert found[0]["impact"]["basis"].startswith("every step, at least 3 waits")


@pytest.mark.parametrize(("workers", "level"), [("0", "medium"), ("8", "low")])
def test_numbers_read_one_after_the_other_cost_little_where_workers_make_the_batches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: str, level: str
) -> None:
    data = (
        "from torch.utils.data import DataLoader\nfrom torchvision.datasets import ImageFolder\n"
        "from torchvision.transforms import ToTensor\n\n"
        f"loader = DataLoader(ImageFolder(root, ToTensor()), batch_size=16, num_workers={workers})\n"
    )
    more = "    tops.append(output.min().item())\n    tops.append(output.std().item())\n"
    write(tmp_path, data + STEP + FOUR + more)
    assert max(one["impact"]["level"] for one in scanned(tmp_path, capsys, "GPU305", "low")) == level
