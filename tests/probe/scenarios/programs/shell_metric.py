import subprocess

import stage
from plain_job import train_step

SCORER = "{ for (i = 0; i < 250; i++) for (j = 1; j <= NF; j++) hits += ($j == $1) } END { print hits / NR }"


def bleu(hypotheses):
    """The score of an external tool, as the script of a shared task gives it."""
    done = subprocess.run(["awk", SCORER], input="\n".join(hypotheses), capture_output=True, text=True, check=True)
    return float(done.stdout)


hypotheses = [f"the cat {number} sat on the mat" for number in range(100)]
for step in stage.steps(5):
    train_step(gpu_s=0.02)
    score = bleu(hypotheses)
