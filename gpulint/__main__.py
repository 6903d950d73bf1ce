"""``python -m gpulint``."""

import sys

from gpulint.cli import main

if __name__ == "__main__":
    sys.exit(main())
