"""Circumstances of code that nothing runs, or that ends with an error before it costs anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.assessment import (
    broken_imports,
    documented_programs,
    failing_places,
    import_roots,
    inner_imports,
    moved_imports,
    place_facts,
    process_options,
    script_folders,
    uncalled,
    unmade_heirs,
    unmade_instances,
    unreached_rounds,
    unused_modules,
)
from gpulint.assessment.circumstance import AT_START, TO_LOW, Circumstance
from gpulint.workload.unfit_steps import feeds_no_step

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject


def _feeds_no_step(subject: Subject) -> bool:
    loader = subject.cost.loader if subject.cost is not None else None
    return loader is not None and feeds_no_step(subject.project, loader)


def _is_beside_jobs(subject: Subject) -> bool:
    return (
        subject.is_in_no_job
        and not subject.tries_itself
        and not documented_programs.is_documented(subject.project, subject.path)
    )


UNRUN: tuple[Circumstance, ...] = (
    Circumstance("nothing calls it", TO_LOW, uncalled.is_not_called),
    Circumstance("only a file with a syntax error uses it", TO_LOW, uncalled.only_broken_files_use),
    Circumstance("nothing calls the function with the loop", TO_LOW, uncalled.is_in_uncalled_loop),
    Circumstance("nothing calls the functions that read it", TO_LOW, uncalled.only_unused_read),
    Circumstance("its calls do not fit its parameters", TO_LOW, place_facts.fails_before),
    Circumstance("the loop or function around raises an error", TO_LOW, failing_places.fails_there),
    Circumstance("every N rounds of a loop that has fewer", TO_LOW, unreached_rounds.comes_after_last_round),
    Circumstance("no step of its model takes these batches", TO_LOW, _feeds_no_step),
    Circumstance("all subclasses override it", TO_LOW, place_facts.is_overridden),
    Circumstance("the classes that configurations name override it", TO_LOW, unmade_heirs.is_replaced),
    Circumstance("its class reads an option that the program lacks", TO_LOW, unmade_instances.cannot_be_made),
    Circumstance("each call passes what is made here", TO_LOW, place_facts.is_for_missing_argument),
    Circumstance("in a self-test that no job runs", TO_LOW, lambda subject: subject.tries_itself),
    Circumstance("in a self-test", TO_LOW, place_facts.tries_classes),
    Circumstance("for another system", TO_LOW, place_facts.is_for_another_system),
    Circumstance("imports a module that is not there", TO_LOW, moved_imports.cannot_start),
    Circumstance("its function imports a module that is not there", TO_LOW, inner_imports.ends_before),
    Circumstance("a relative import in it leaves its package", TO_LOW, import_roots.leaves_package),
    Circumstance("its imports need two folders to start in", TO_LOW, import_roots.needs_two_roots),
    Circumstance("imports what a module does not define", TO_LOW, moved_imports.imports_what_is_gone),
    Circumstance("imports a module with a syntax error", TO_LOW, broken_imports.imports_broken_file),
    Circumstance(
        "its launcher and the program both start processes, on one port", TO_LOW, process_options.starts_twice
    ),
    Circumstance("its program rejects the command", TO_LOW, process_options.is_rejected_by_program),
    Circumstance("its program does not find its own package from its folder", TO_LOW, script_folders.finds_no_package),
    Circumstance("the jobs only import its module for other parts", 1, _is_beside_jobs),
    Circumstance("nothing is seen to run it", 1, unused_modules.is_unused),
    Circumstance(
        "the documented programs do not run it", 1, documented_programs.is_beside_documented, not_kinds=AT_START
    ),
)
