"""Draw photographs of coloured discs and squares, to try the job without a data set of your own."""

import argparse
import random
from pathlib import Path

from PIL import Image, ImageDraw


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, default=Path("images"))
    parser.add_argument("--count", type=int, default=256)
    args = parser.parse_args()

    for index in range(args.count):
        chance = random.Random(index)
        kind = ("disc", "square")[index % 2]
        image = Image.new("RGB", (320, 240), tuple(chance.randrange(256) for _ in range(3)))
        left, top, size = chance.randrange(180), chance.randrange(100), chance.randrange(60, 140)
        colour = tuple(chance.randrange(256) for _ in range(3))
        draw = ImageDraw.Draw(image)
        shape = draw.ellipse if kind == "disc" else draw.rectangle
        shape((left, top, left + size, top + size), fill=colour)
        folder = args.images / kind
        folder.mkdir(parents=True, exist_ok=True)
        image.save(folder / f"{index:06d}.jpg")


if __name__ == "__main__":
    main()
