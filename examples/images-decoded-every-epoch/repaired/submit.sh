#!/bin/bash
# The GPU is requested once the pixels are there.
set -euo pipefail
cd "$(dirname "$0")"

pixels=$(sbatch --parsable preprocess.sbatch)
sbatch --dependency="afterok:$pixels" train.sbatch
