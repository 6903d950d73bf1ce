#!/bin/bash
#SBATCH --job-name=beats
#SBATCH --nodes=1
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
set -euo pipefail

torchrun --standalone --nproc_per_node=2 train.py --epochs 50
