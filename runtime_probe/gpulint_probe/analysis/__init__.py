"""What a recording says: figures by the definitions of the literature, and a verdict. Functions here only compute."""

from gpulint_probe.analysis.figures import Analysis, analyse
from gpulint_probe.analysis.program import Program, StaticFinding, read_program

__all__ = ["Analysis", "Program", "StaticFinding", "analyse", "read_program"]
