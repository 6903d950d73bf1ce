"""Code that several files share is one finding in the default view."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main
from tests.assessment.scans import HEAD, IMAGES, TRAINING, scan

SCRIPT = """\
import torch
from torch import nn
from net import {net}

model = {net}().cuda()
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.1)
running_loss, running_norm, running_right = 0.0, 0.0, 0.0
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    running_loss += loss.item()
    running_norm += nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
    for row in model(images.cuda()):
        running_right += row.max().item()
print(running_loss / len(loader))
print(running_norm / len(loader), running_right)
{end}
"""


OTHER = """\
import torch
from gan import Critic, Generator, gradient_penalty

generator, critic = Generator().to("cuda"), Critic().to("cuda")
of_critic = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
running_loss, running_norm, running_right = 0.0, 0.0, 0.0
for real in photos:
    noise = torch.randn(len(real), 128, device="cuda")
    fake = generator(noise).detach()
    loss = critic(fake).mean() - critic(real.to("cuda")).mean()
    loss = loss + 10 * gradient_penalty(critic, real, fake)
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    running_loss += loss.item()
    running_norm += torch.linalg.norm(critic.last.weight).item()
    for row in critic(fake):
        running_right += row.max().item()
torch.save(generator.state_dict(), "generator.pt")
torch.save(critic.state_dict(), "critic.pt")
print(running_loss, running_norm, running_right)
"""


def waits(folder: Path, capsys: pytest.CaptureFixture[str], impact: str = "medium") -> list[tuple[str, str, str]]:
    """(file, level, basis) of the findings on waits."""
    main(
        [
            "scan",
            "--isolated",
            "--no-cache",
            "--select",
            "GPU305",
            "--output-format",
            "json",
            "--impact",
            impact,
            str(folder),
        ]
    )
    found = json.loads(capsys.readouterr().out)
    return [(Path(one["path"]).name, one["impact"]["level"], one["impact"]["basis"]) for one in found]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text("")
    for name, net, optimizer in (("a", "Small", "SGD"), ("b", "Large", "Adam"), ("c", "Huge", "AdamW")):
        end = f"print('{name}')\n" * 12
        (tmp_path / f"train_{name}.py").write_text(SCRIPT.format(net=net, optimizer=optimizer, end=end))
    return tmp_path


def test_scripts_copied_under_other_names_are_shown_once(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = waits(tree, capsys)
    assert {(name, level) for name, level, _ in found} == {("train_a.py", "medium")}
    assert all("also in train_b.py and 1 more, also line" in basis for _, _, basis in found)


def test_a_shown_finding_names_copies_of_its_file_in_other_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("small", "small/large", "other"):
        (tmp_path / folder).mkdir()
    text = SCRIPT.format(net="Net", optimizer="SGD", end="")
    (tmp_path / "small" / "train.py").write_text(text)
    (tmp_path / "small" / "large" / "train.py").write_text(text)
    (tmp_path / "other" / "critic.py").write_text(OTHER)
    found = {name: basis for name, _, basis in waits(tmp_path, capsys)}
    assert "also in small/large/train.py" in found["train.py"]
    assert "also in" not in found["critic.py"]


def test_a_semicolon_at_the_end_of_lines_makes_no_other_copy(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (tree / "train_b.py").read_text()
    (tree / "train_b.py").write_text(text.replace(".item()\n", ".item();\n").replace(".max()\n", ".max();\n"))
    assert {name for name, _, _ in waits(tree, capsys)} == {"train_a.py"}


def test_the_finding_of_a_loop_names_the_copies_of_its_other_lines(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train_b.py", "train_c.py"):
        text = (tree / name).read_text().replace("running_right += row.max()", "running_best = row.amax(0).max()")
        (tree / name).write_text(text)
    ((name, _, basis),) = waits(tree, capsys)
    assert name == "train_a.py"
    assert basis.endswith(", also lines 12 and 13, also in train_b.py and 1 more")


def test_a_finding_names_each_place_that_its_fix_changes_in_copies(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "train_c.py").unlink()
    text = (tree / "train_b.py").read_text()
    other = "running_best = row.amax(0).max()"
    (tree / "train_b.py").write_text(text.replace("running_right += row.max()", other))
    select = ["--isolated", "--no-cache", "--select", "GPU305"]
    main(["scan", *select, "--impact", "medium", "--output-format", "json", str(tree)])
    (shown,) = json.loads(capsys.readouterr().out)
    named = {(Path(one["path"]).name, one["line"]) for one in shown["related"]} | {("train_a.py", shown["line"])}
    main(["scan", *select, "--impact", "low", "--output-format", "json", str(tree)])
    assert named == {(Path(one["path"]).name, one["line"]) for one in json.loads(capsys.readouterr().out)}


def test_the_copy_that_a_launcher_starts_is_shown(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "run.sh").write_text("for seed in 1 2 3; do\n    python train_b.py --seed $seed\ndone\n")
    found = waits(tree, capsys)
    assert {name for name, _, _ in found} == {"train_b.py"}
    assert all("also in train_a.py and 1 more" in basis for _, _, basis in found)


def test_all_places_are_there_at_low_impact(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = waits(tree, capsys, "low")
    assert len(found) == 9
    copies = [(name, basis) for name, level, basis in found if level == "low"]
    assert {name for name, _ in copies} == {"train_a.py", "train_b.py", "train_c.py"}
    assert all("the same code as train_a.py:" in basis for name, basis in copies if name != "train_a.py")


def test_other_code_with_the_same_line_is_no_copy(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "train_b.py").write_text(OTHER)
    found = waits(tree, capsys)
    assert [name for name, _, _ in found] == ["train_a.py", "train_b.py"]


def test_a_script_that_was_changed_around_the_line_is_a_copy_as_well(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = (tree / "train_b.py").read_text().replace("optimizer.step()", "optimizer.step()\n    scheduler.step()")
    (tree / "train_b.py").write_text(changed.replace("labels.cuda())", "labels.cuda(), label_smoothing=0.1)"))
    assert {name for name, _, _ in waits(tree, capsys)} == {"train_a.py"}


def commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    """(file, basis) of the findings of the default view on what launchers install and copy."""
    main(
        [
            "scan",
            "--isolated",
            "--no-cache",
            *("--select", "GPU401,GPU332", "--impact", "medium"),
            *("--output-format", "json"),
            str(folder),
        ]
    )
    found = json.loads(capsys.readouterr().out)
    return [(str(Path(one["path"]).resolve().relative_to(folder)), one["impact"]["basis"]) for one in found]


def batch_script(name: str, command: str, gpus: int = 2) -> str:
    """A script that shares no other lines with those of other names."""
    return f"#!/bin/bash\n#SBATCH -J {name}\n#SBATCH --gres=gpu:{gpus}\n{command}\npython {name}.py --out out/{name}\n"


def test_jobs_of_a_folder_that_install_the_same_are_one_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    for name in ("a", "b", "c", "other/d"):
        script = batch_script(Path(name).name, "pip install --upgrade torch pandas")
        (tmp_path / f"{name}.sbatch").write_text(script)
        (tmp_path / f"{name}.py").write_text("import torch\ntorch.ones(2).cuda()\n")
    found = commands(tmp_path, capsys)
    assert [name for name, _ in found] == ["a.sbatch", "other/d.sbatch"]
    assert found[0][1].endswith("also in b.sbatch and 1 more")
    assert "also in" not in found[1][1]


def test_each_job_copies_for_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        (tmp_path / f"{name}.sbatch").write_text(batch_script(name, "scp -r storage:/data/set /project/set", 8))
        (tmp_path / f"{name}.py").write_text("import torch\ntorch.ones(2).cuda()\n")
    assert [name for name, _ in commands(tmp_path, capsys)] == ["a.sbatch", "b.sbatch"]


def test_downloads_of_the_same_model_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One copy in a cache serves the jobs of several programs."""
    load = "from transformers import AutoModelForCausalLM\n\nnet = AutoModelForCausalLM.from_pretrained('{}').cuda()\n"
    names = {"tune": "meta-llama/Llama-3.1-70B", "answer": "meta-llama/Llama-3.1-70B", "other": "Qwen/Qwen2.5-72B"}
    for number, (name, model) in enumerate(names.items()):
        (tmp_path / f"{name}.py").write_text(f"number = {number}\n" + load.format(model) + f"{name}(net, number)\n")
        (tmp_path / f"{name}.sbatch").write_text(f"#!/bin/bash\n#SBATCH --gres=gpu:8\npython {name}.py\n")
    main(
        [
            "scan",
            str(tmp_path),
            "--isolated",
            "--exit-zero",
            "--impact",
            "low",
            "--output-format",
            "json",
            "--select",
            "GPU331",
        ]
    )
    found = {Path(one["path"]).stem: one["impact"] for one in json.loads(capsys.readouterr().out)}
    assert {name: impact["level"] for name, impact in found.items()} == {
        "answer": "medium",
        "tune": "low",
        "other": "medium",
    }
    assert found["tune"]["basis"].endswith("the same download as answer.py:4")


def test_a_model_that_a_file_downloads_in_two_functions_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = "AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-72B').cuda()"
    text = "from transformers import AutoModelForCausalLM\n\n"
    text += "".join(f"def {name}():\n    return {load}\n\n" for name in ("tune", "answer"))
    (tmp_path / "train.py").write_text(f"{text}tune().step(answer())\n")
    (tmp_path / "job.sbatch").write_text("#!/bin/bash\n#SBATCH --gres=gpu:8\npython train.py\n")
    found = printed(tmp_path, capsys, "GPU331")
    assert [one.partition(",")[0] for one in found.values()] == ["medium", "low"]


def printed(folder: Path, capsys: pytest.CaptureFixture[str], rule: str) -> dict[str, str]:
    """Level and basis of a rule's findings, by file and line."""
    main(
        [
            "scan",
            str(folder),
            "--isolated",
            "--exit-zero",
            "--impact",
            "low",
            "--output-format",
            "json",
            "--select",
            rule,
        ]
    )
    rows = json.loads(capsys.readouterr().out)
    return {
        f"{Path(one['path']).name}:{one['line']}": f"{one['impact']['level']}, {one['impact']['basis']}" for one in rows
    }


def test_commands_line_by_line_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tars = "".join(f"tar xf /data/part{number}.tar -C data\n" for number in range(3))
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:8\n{tars}echo unpacked\ntar xf /data/last.tar -C data\npython train.py\n"
    (tmp_path / "job.sbatch").write_text(job)
    (tmp_path / "train.py").write_text("import torch\n\ntorch.nn.Linear(4, 4).cuda()\n")
    found = printed(tmp_path, capsys, "GPU332")
    assert [one.partition(",")[0] for one in found.values()] == ["medium", "low", "low", "medium"]
    assert found["job.sbatch:5"].endswith("with the command in line 3")


def test_launchers_of_one_program_for_several_models_count_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "".join(f"    --option_{letter} {letter * 3} \\\n" for letter in "abcdefghijkl")
    job = f"#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:8\n#SBATCH --time=24:00:00\ntorchrun tune.py \\\n{options}    --model "
    for name in ("30B", "32B", "72B"):
        (tmp_path / f"tune_{name}.sbatch").write_text(f"{job}Qwen/Qwen2.5-{name}\n")
    (tmp_path / "tune.py").write_text(
        "from argparse import ArgumentParser\n\nfrom transformers import AutoModelForCausalLM\n\n"
        'parser = ArgumentParser()\nparser.add_argument("--model", required=True)\n'
        'for letter in "abcdefghijkl":\n    parser.add_argument(f"--option_{letter}")\nargs = parser.parse_args()\n'
        "model = AutoModelForCausalLM.from_pretrained(args.model).cuda()\n"
    )
    found = printed(tmp_path, capsys, "GPU331")
    scripts = {place: one for place, one in found.items() if ".sbatch" in place}
    shown = [place for place, one in scripts.items() if not one.startswith("low")]
    assert len(scripts) == 3 and len(shown) == 1, found
    assert any("in a copy of" in one for one in scripts.values()), found


def test_job_files_that_a_script_writes_are_one_finding_which_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "python -m pip install --upgrade git+https://git.sr.ht/plots.git"
    for number in range(6):
        gpus = 8 if number == 3 else 4
        python = "python3" if number == 5 else "python"
        text = f"#!/bin/bash\n#SBATCH --gres=gpu:{gpus}\n{line.replace('python', python, 1)}\npython fit.py {number}\n"
        (tmp_path / f"train_{number}.job").write_text(text)
    (tmp_path / "fit.py").write_text("import torch\ntorch.ones(2).cuda()\n")
    script = f'#!/bin/bash\necho "#!/bin/bash\n#SBATCH --gres=gpu:$2\n{line}\npython fit.py $1" > train_$1.job\n'
    (tmp_path / "run.sh").write_text(script + "sbatch train_$1.job\n")
    ((name, basis),) = commands(tmp_path, capsys)
    assert name == "train_3.job"
    assert basis.endswith("also in train_0.job and 4 more, written by run.sh:4")


def test_of_copies_of_a_line_the_loop_with_most_places_is_shown(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its other places would be hidden with the line otherwise, as those of a copy."""
    text = (tree / "train_a.py").read_text()
    row = "    for row in model(images.cuda()):\n        running_right += row.max().item()\n"
    assert row in text
    (tree / "train_a.py").write_text(text.replace(row, ""))
    ((name, _, basis),) = waits(tree, capsys)
    assert name == "train_b.py"
    assert "also in" in basis


@pytest.mark.parametrize("options", [[], ["--unsafe-fixes"]])
def test_a_fix_hides_as_many_findings_as_a_scan(
    tree: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    select = ["--isolated", "--select", "GPU305", "--impact", "medium", str(tree)]
    main(["scan", "--no-cache", *select])
    hidden = capsys.readouterr().out.splitlines()[-1]
    assert hidden == "8 low-impact findings hidden; --impact low shows them."
    main(["fix", *options, *select])
    assert capsys.readouterr().out.splitlines()[-1] == hidden


SKELETON = """\
import torch
from data import loaders
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear({width}, 10)

    def forward(self, rows):
        return self.layer(rows)


def train(train_loader, val_loader):
    model = Net(){moved}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    use_cuda = torch.cuda.is_available()
    for epoch in range(30):
        model.train()
        for rows, labels in train_loader:
            loss = nn.functional.cross_entropy(model(rows{moved}), labels{moved})
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        for rows, labels in val_loader:
            # the accuracy of the model on the rows that were held out
            out = model(rows{moved})
            print(out.argmax(1).eq(labels{moved}).float().mean())


if __name__ == "__main__":
    train(*loaders())
"""


@pytest.mark.parametrize(("width", "leads"), [("in_channel", "b_train.py"), ("8", "a_train.py")])
def test_a_file_that_lacks_a_name_does_not_lead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], width: str, leads: str
) -> None:
    (tmp_path / "a_train.py").write_text(SKELETON.format(width=width, moved=".cuda()"))
    (tmp_path / "b_train.py").write_text(SKELETON.format(width="8", moved=".cuda()"))
    assert _leading(tmp_path, capsys) == [leads]


def test_a_file_that_moves_nothing_to_a_gpu_does_not_lead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a_train.py").write_text(SKELETON.format(width="8", moved=""))
    (tmp_path / "b_train.py").write_text(SKELETON.format(width="8", moved=".cuda()"))
    assert _leading(tmp_path, capsys) == ["b_train.py"]


def _leading(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    main(["scan", "--no-cache", "--isolated", "--select", "GPU203", "--output-format", "json", str(folder)])
    return [Path(one["path"]).name for one in json.loads(capsys.readouterr().out) if one["impact"]["level"] != "low"]


MOVED = SCRIPT.format(net="Net", optimizer="SGD", end="")


def test_a_copy_that_alone_moves_its_batches_is_not_lowered(tmp_path: Path) -> None:
    moved = HEAD + IMAGES + TRAINING
    kept = moved.replace("model(images.cuda()), labels.cuda()", "model(images), labels")
    for folder, original, expected in (("alone", kept, "high"), ("both", moved, "low")):
        report = scan(tmp_path / folder, {"net.py": "", "train.py": original, "seg/net.py": "", "seg/train.py": moved})
        (impact,) = (
            one.finding.impact
            for one in report.results
            if one.finding.rule.code == "GPU303" and one.finding.path.parent.name == "seg"
        )
        assert impact.level.name.lower() == expected, impact


def test_a_demo_with_the_code_of_a_finding_is_named_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("net.py", "train.py", "tutorial/fit.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("" if path == "net.py" else MOVED)
    found = waits(tmp_path, capsys)
    assert {path for path, _, _ in found} == {"train.py"}
    assert any("tutorial/fit.py" in basis for _, _, basis in found)
