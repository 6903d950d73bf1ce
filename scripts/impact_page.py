"""The page docs/impact.md, of which the tables come from the code."""

from __future__ import annotations

from typing import Any

from gpulint.assessment.circumstance import TO_LOW
from gpulint.assessment.circumstances import CIRCUMSTANCES
from gpulint.assessment.constants import table

HEAD = """\
# Impact

Each finding has a severity and an impact. The severity says how sure gpulint is: an error is sure. The impact says
how much GPU time the waste costs: `high`, `medium` or `low`.

```json
"impact": {
  "level": "high",
  "basis": "the whole run, 2 of 8 GPUs in use, 8 GPUs",
  "gpu_share": [0.75, 0.75],
  "gpu_hours": null
}
```

- `basis` is the sentence that the level rests on: how often it happens, how much is lost each time, how many GPUs the
  job holds, and what lowers the level.
- `gpu_share` is the share of the job's GPU time that is lost, lowest and highest. It is given where the code and its
  launcher state all that it takes, such as the numbers of processes and GPUs.
- `gpu_hours` are the GPU-hours that are lost in each run. They are given where a duration is written (`sleep 7200`)
  or follows from names (packages that are installed, the size of a model) and the job says how many GPUs it holds.

## How a level comes about

1. The rule says what kind of waste it reports: a wait of the host, a copy from pageable memory, an installation. A
   plugin's rule does so with `Rule(cost=Cost("host-wait"))`, or for one finding with `RULE.finding(..., cost=...)`.
   Without a cost, errors are high, warnings medium and infos low.
2. The loops around the place say how often it happens: every step, every step that gets there (in a branch), every N
   steps, every epoch, in evaluation, once per run.
3. The data set and the loader say how much: the kind of samples, the size of a batch, its bytes. Names say how much
   is installed or downloaded.
4. The jobs of the tree that run the file say how many GPUs wait.
5. The share of the run that is lost, or the GPU-seconds of what happens once per run, gives the level. Ranges count
   with the geometric mean of their ends. An info, which may not apply, is one level lower in a step and never high
   elsewhere. A finding is low where nothing in the code establishes what it assumes
   (`Cost(..., assumed="assuming samples of one shape")`); the basis then says so. A job without work is medium where
   its time limit allows less than the GPU-seconds of a high level.
6. A wait of the host costs what it adds to its step. After one that stays in any case (a value that the step needs,
   shows or writes to a curve, a scaler of gradients, a clock, a solver of the host), others cost little. A value that
   is needed in a function that the loop calls counts as well, as does a copy of numbers to the GPU in each round of the
   inner loop that the reads are in. A wait also costs little in a step that is long: one of a large model, of several
   networks on images, of several micro-steps, or that reads files.
7. Circumstances lower it.
8. Of the waits of one loop, which are repaired together, `gpulint scan` shows one at its level. It names the lines of
   the others, which are low.
9. Where no fix is offered, what gains little is one level lower: waits of the host, evaluations that record gradients,
   loaders that are not pinned, gradients exchanged in each micro-step, checkpoints on a disk, passes over the data. A
   repair by hand takes longer than the gain is worth: of such findings readers thanked for one in five, and one in
   eight was wrong; of those with a fix they thanked for more than half
   (benchmarks/verdicts/usefulness). The kinds of cost for which readers seldom thanked, with a fix or without, are low
   (the sources of their figures say how often).

"""
LOWERS = """
## What lowers the level

By one level, or to low. A circumstance lowers, it never hides: `low` findings are still part of the report.

| circumstance | by | kinds of cost |
|---|---|---|
"""
FIGURES = """
## Figures

All figures are in `gpulint/assessment/constants.toml`, each with its source. "Assumed" means that it was not
measured: it decides between levels and is never reported as a share of GPU time. GPU-hours of installations and
downloads rest on the typical times below.
"""


def page() -> str:
    """The whole page."""
    return HEAD.rstrip() + "\n" + _levels() + LOWERS + _circumstances() + _signs() + FIGURES + _figures()


def _levels() -> str:
    levels = table()["levels"]
    return f"""
| level | in every step, epoch or evaluation | once per run |
|---|---|---|
| high | {levels["high_share"]:.0%} of the run's GPU time or more | {levels["high_gpu_seconds"]} GPU-seconds or more |
| medium | {levels["medium_share"]:.0%} or more | {levels["medium_gpu_seconds"]} GPU-seconds or more |
| low | less | less |

Source of the bounds: {levels["source"]}. Some kinds of cost have bounds of their own (see the figures below).
"""


def _circumstances() -> str:
    lines = []
    for row in CIRCUMSTANCES:
        only = ", ".join(sorted(row.kinds)) or (
            "all but " + ", ".join(sorted(row.not_kinds)) if row.not_kinds else "all"
        )
        lines.append(f"| {row.phrase} | {'to low' if row.levels >= TO_LOW else 'one level'} | {only} |\n")
    return "".join(lines)


def _signs() -> str:
    signs = table()["signs_of_use"]
    rows = "".join(
        f"| {name} | {', '.join(f'`{word}`' for word in words)} |\n" for name, words in signs["words"].items()
    )
    return f"""
### Signs of regular use

In a tree with a README, a module without a job counts for less where it and the programs that run it show fewer than
{signs["least"]} of these signs (`*` is any part of a name) or of one more, documents: notes, scripts or jobs name the
program. It counts for less as well without any of {" and ".join(signs["one_of"])}.
Source: {signs["source"]}.

| sign | names in the code |
|---|---|
{rows}"""


def _figures() -> str:
    parts = ["\n### Kinds of cost\n\n| kind | what | each time | source |\n|---|---|---|---|\n"]
    for name, row in table()["kind"].items():
        parts.append(f"| {name} | {row['what']} | {_each(row)}{_bounds(row)} | {row['source']} |\n")
    for section in ("assumed", "bandwidth", "bytes", "sample_seconds", "download"):
        rows = dict(table()[section])
        parts.append(f"\n### {section.replace('_', ' ').capitalize()}\n\nSource: {rows.pop('source')}.\n\n")
        parts.append("| figure | value |\n|---|---|\n")
        parts += [f"| {name.replace('_', ' ')} | {_range(value)} |\n" for name, value in rows.items()]
    rows = dict(table()["install"])
    known, light = rows.pop("known"), rows.pop("light")
    parts.append(f"\n### Installation\n\nSource: {rows.pop('source')}.\n\n| package | seconds |\n|---|---|\n")
    parts += [f"| {name} | {_range(value)} |\n" for name, value in {**rows, **known}.items()]
    return "".join(parts) + f"\nSmall packages: {', '.join(light)}.\n"


def _each(row: dict[str, Any]) -> str:
    per = {"place": "", "run": " once", "step": " of each step", "epoch": " each epoch", "evaluation": " of evaluation"}
    if "seconds" in row:
        return f"{_range(row['seconds'])} s{per[row['per']] if row['per'] in ('run', 'epoch') else ''}"
    if "share" in row:
        low, high = row["share"]
        return f"{low * 100:g}% to {high * 100:g}%{per[row['per']]}" + (
            ", divided by the samples" if row.get("divides") else ""
        )
    if "bandwidth" in row:
        return "bytes by bandwidth"
    return "samples by the time of one" if "by_sample" in row else "by the settings"


def _bounds(row: dict[str, Any]) -> str:
    """The bounds of a kind that has its own."""
    parts = [f"{name} from {row[key] * 100:g}%" for name in ("medium", "high") if (key := f"{name}_share") in row]
    if "medium_gpu_seconds" in row:
        seconds = f" and {row['medium_seconds']} s" if "medium_seconds" in row else ""
        parts.append(f"medium from {row['medium_gpu_seconds']} GPU-seconds{seconds}")
    return f"; {', '.join(parts)}" if parts else ""


def _range(value: Any) -> str:
    return f"{value[0]:g} to {value[1]:g}" if isinstance(value, list) else f"{value:g}"
