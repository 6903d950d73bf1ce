#!/bin/bash
#SBATCH --job-name=beats
#SBATCH --nodes=1
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
set -euo pipefail

export CUDA_VISIBLE_DEVICES=0,1
python train.py --epochs 50
