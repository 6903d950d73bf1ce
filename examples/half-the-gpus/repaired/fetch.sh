#!/bin/bash
# Fetch the corpus and the weights once, on a machine without GPUs: fetch.sh FOLDER
set -euo pipefail

mkdir -p "$1"
wget -q -O "$1/tokens.bin" https://data.example.org/corpus/tokens.bin
wget -q -O "$1/small-lm.pt" https://models.example.org/small-lm.pt
