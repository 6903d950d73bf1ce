"""What an estimate can fail with; every message is one line that a user can act on."""

from __future__ import annotations


class EstimateError(Exception):
    """The request cannot be answered: a wrong target, input or option."""


class CannotSimulate(EstimateError):
    """The program does something whose memory is not known without running it on data.

    ``operator`` is the operator that stopped the simulation and ``module`` the dotted name of the module that called it
    (empty where no module is known).
    """

    def __init__(self, reason: str, operator: str, module: str = "") -> None:
        where = f" in module '{module}'" if module else ""
        super().__init__(f"cannot simulate {operator}{where}: {reason}")
        self.operator = operator
        self.module = module
