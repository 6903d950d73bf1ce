"""Files that enter or leave the machine: storage, downloads, uploads, checkpoints."""
