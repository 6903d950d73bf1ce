"""Move copies and preparing programs into a stage before the job."""

from __future__ import annotations

from gpulint.fix import Fixer
from gpulint_fixers.stages.split import split

FIXER = Fixer("GPU332", split)
