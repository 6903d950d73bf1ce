"""Decode, crop and resize all photographs once, on CPUs, into one array that training maps into memory."""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 96


def pixels_of(file: Path) -> np.ndarray:
    """The middle of a photograph as uint8 pixels, channels first."""
    image = Image.open(file).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    image = image.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.array(image).transpose(2, 0, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, default=Path("images"), help="one folder of photographs per class")
    parser.add_argument("--output", type=Path, default=Path("pixels"))
    parser.add_argument("--processes", type=int, default=None, help="default: one per CPU")
    args = parser.parse_args()

    files = sorted(args.images.glob("*/*.jpg"))
    if not files:
        raise SystemExit(f"no photographs in {args.images}; make_images.py draws some")
    classes = sorted({file.parent.name for file in files})
    args.output.mkdir(parents=True, exist_ok=True)
    shape = (len(files), 3, SIDE, SIDE)
    pixels = np.lib.format.open_memmap(args.output / "pixels.npy", mode="w+", dtype=np.uint8, shape=shape)
    with ProcessPoolExecutor(args.processes) as pool:
        for index, item in enumerate(pool.map(pixels_of, files, chunksize=64)):
            pixels[index] = item
    pixels.flush()
    np.save(args.output / "labels.npy", [classes.index(file.parent.name) for file in files])
    (args.output / "classes.json").write_text(json.dumps(classes))


if __name__ == "__main__":
    main()
