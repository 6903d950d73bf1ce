"""Take the documentation's pictures of the HTML report, with Debian's chromium: scripts/screenshots.py [FOLDER].

The pictures show a scan of the examples, at the width of a desktop and of a phone, light and dark.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpulint.cli import main as gpulint

ROOT = Path(__file__).resolve().parent.parent
PICTURES = {
    "report-light": (1000, 900, False),
    "report-dark": (1000, 900, True),
    "report-phone": (390, 844, False),
    "report-phone-dark": (390, 844, True),
}
"""Name -> width and height in CSS pixels, and whether it is dark."""
LARGEST = 200_000
"""Bytes of a picture."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def take(page: Path, target: Path, width: int, height: int, dark: bool, browser: str) -> None:
    """Write a picture of the top of ``page``. Raises CalledProcessError where the browser fails."""
    # A headless window is never narrower than 500 pixels, so that a phone's width is that of a frame.
    framed = page.with_name(f"{target.stem}.html")
    framed.write_text(
        "<!doctype html><style>html,body{margin:0;overflow:hidden}"
        f'iframe{{border:0;width:{width}px;height:{height}px}}</style><iframe src="{page.name}"></iframe>',
        encoding="utf-8",
    )
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={width},{height}",
        f"--screenshot={target}", framed.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> int:
    """Exit code 1 if there is no browser, or a picture is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    folder = parser.parse_args().folder.absolute()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("no chromium: apt-get install chromium")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch, "report.html")
        with contextlib.chdir(ROOT / "examples"):
            gpulint(("scan", "--no-cache", "--output-file", os.fspath(page)))
        for name, (width, height, dark) in PICTURES.items():
            target = folder / f"{name}.png"
            take(page, target, width, height, dark, browser)
            size = target.stat().st_size
            print(f"{target.name}: {width} x {height}, {size:,} bytes")
            if size > LARGEST:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
