"""What makes a finding cost less than it would elsewhere: toy runs, demos, copies, code that is not called, reasons.

Each circumstance is one row of ``CIRCUMSTANCES``: how it reads, by how many levels it lowers, and the test. Tests ask
about the file, the place and the jobs, never about the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.assessment import (
    author_machines,
    author_notes,
    chosen_gpus,
    cpu_builds,
    data_preparation,
    declared_defaults,
    desktops,
    documented_costs,
    documented_programs,
    failing_places,
    few_rounds,
    file_facts,
    frequency,
    gpu_options,
    gpu_signs,
    idle_programs,
    idle_reasons,
    input_limits,
    job_facts,
    kept_folders,
    left_out,
    library_parts,
    linear_probes,
    loader_facts,
    loading_limits,
    micro_steps,
    nbdev_cells,
    passed_switches,
    place_facts,
    placeholders,
    process_options,
    reached_places,
    repeats,
    sampling_steps,
    shell_defaults,
    siblings,
    signs_of_use,
    slow_steps,
    split_sets,
    step_lengths,
    windows_authors,
    worker_facts,
    worker_settings,
)
from gpulint.assessment.circumstance import AT_START, TO_LOW, Circumstance
from gpulint.assessment.copies import IS_COPY, IS_DEMO
from gpulint.assessment.reasons import has_reason, names_waits
from gpulint.assessment.unrun_code import UNRUN

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject


def circumstances(subject: Subject) -> Iterator[Circumstance]:
    """Those that hold for a finding."""
    kind = subject.cost.kind if subject.cost is not None else ""
    for row in CIRCUMSTANCES:
        if (row.kinds and kind not in row.kinds) or kind in row.not_kinds:
            continue
        if row.holds(subject):
            yield row


_PAGEABLE = frozenset({"pageable-transfer"})
_BATCH = frozenset({"small-batch", "small-evaluation-batch", "single-sample-evaluation"})
_EVALUATION = frozenset({"gradients", "held-graphs"})
_SINGLE = frozenset({"single-sample-evaluation"})
_EXCHANGE = frozenset({"gradient-exchange"})
_BETWEEN_PROCESSES = frozenset({"parameter-search", "collective", "slow-exchange"})
_BETWEEN_GPUS = _BETWEEN_PROCESSES | {"gradient-exchange", "data-parallel"}
_MODES = frozenset({"debug-mode", "without-cudnn"})
_WITHOUT_CUDNN = frozenset({"without-cudnn"})
_DATA_PARALLEL = frozenset({"data-parallel"})
_HELD = frozenset({"interactive"})
_FLUSH = frozenset({"allocator-flush"})
_PAUSE = frozenset({"pause"})
_IDLE = frozenset({"idle-gpus"})
_STOP = frozenset({"breakpoint"})
_HIDDEN = frozenset({"hidden-gpus"})
_MACHINE = frozenset({"install", "download", "data-copy"})
_IN_STEPS = frozenset({"host-wait", "host-tensor"})
_WAITS = frozenset({"host-wait", "needed-wait", "host-tensor"})
_COPIES = frozenset({"transfer", "pageable-transfer"})
_DOWNLOAD = frozenset({"download"})
_INSTALL = frozenset({"install"})
_OF_LOADER = frozenset({"in-process-loading", "pageable-transfer", "transfer"})
_IN_PROCESS = frozenset({"in-process-loading"})
_OF_TRAINING = _DATA_PARALLEL | _OF_LOADER
_KEPT_BY_WORKERS = frozenset({"in-process-loading", "worker-start"})
_ON_DISK = frozenset({"local-checkpoint"})

CIRCUMSTANCES: tuple[Circumstance, ...] = (
    Circumstance("a reason is written beside it", TO_LOW, lambda subject: has_reason(subject)),
    Circumstance("a comment names the synchronisation", TO_LOW, names_waits, kinds=_WAITS),
    Circumstance("the documentation gives a reason", TO_LOW, worker_facts.is_documented, kinds=_IN_PROCESS),
    Circumstance(
        "the documentation names its cost or the reason for it",
        TO_LOW,
        documented_costs.names_cost,
        kinds=_DATA_PARALLEL | _FLUSH | _WITHOUT_CUDNN,
    ),
    *UNRUN,
    Circumstance("only under a condition", 1, place_facts.is_conditional_command),
    Circumstance("in a branch of the program", 1, place_facts.is_conditional_stop, kinds=_STOP),
    Circumstance("nothing uses what its loop makes", TO_LOW, place_facts.is_in_unfinished_loop, kinds=_STOP),
    Circumstance("no GPU program is seen to run it by default", TO_LOW, reached_places.is_unreached, kinds=_STOP),
    Circumstance("a vendored copy", TO_LOW, file_facts.is_vendored),
    Circumstance("a copy of a library", TO_LOW, file_facts.is_library_copy),
    Circumstance("a part of a copied library that no program imports", TO_LOW, library_parts.is_unused_part),
    Circumstance("adapted from elsewhere", 1, file_facts.is_adapted),
    Circumstance("a generated file", TO_LOW, file_facts.is_generated),
    Circumstance("several programs pasted into one file", TO_LOW, file_facts.is_pasted),
    Circumstance(IS_COPY, TO_LOW, file_facts.is_copy),
    Circumstance("an old version", TO_LOW, file_facts.is_outdated),
    Circumstance("a newer version is beside it", TO_LOW, siblings.has_newer_version),
    Circumstance("a benchmark or test", TO_LOW, file_facts.measures),
    Circumstance("a toy or smoke run", TO_LOW, file_facts.is_toy, not_kinds=AT_START),
    Circumstance("trains on answers of users, by its name", TO_LOW, file_facts.learns_from_user, not_kinds=AT_START),
    Circumstance("trains on made-up numbers", TO_LOW, place_facts.trains_on_made_up_numbers),
    Circumstance(IS_DEMO, 1, file_facts.is_demo, not_kinds=AT_START),
    Circumstance("shows a trained model", TO_LOW, file_facts.shows_model, kinds=_MODES),
    Circumstance("few signs of regular use", 1, signs_of_use.shows_few),
    Circumstance("a notebook", 1, file_facts.is_notebook, not_kinds=_DATA_PARALLEL),
    Circumstance("a cell that nbdev does not export", TO_LOW, nbdev_cells.is_not_exported),
    Circumstance("for a figure", TO_LOW, file_facts.evaluates_for_figure, kinds=_EVALUATION),
    Circumstance("only notebooks call it", 1, siblings.only_notebooks_call),
    Circumstance("in a loop over a few samples", TO_LOW, few_rounds.looks_at_few, kinds=_EVALUATION),
    Circumstance("few samples", 1, file_facts.uses_few, not_kinds=AT_START),
    Circumstance("its program runs no model", TO_LOW, idle_programs.runs_no_model, kinds=_MODES),
    Circumstance("prepares data once, by its name", 1, data_preparation.prepares_once, kinds=_MODES),
    Circumstance("evaluates or shows only", TO_LOW, file_facts.inspects, not_kinds=AT_START | _STOP),
    Circumstance(
        "evaluates or shows only, in no documented command",
        TO_LOW,
        documented_programs.inspects_in_no_command,
        kinds=_STOP,
    ),
    Circumstance("of a few batches each time", TO_LOW, few_rounds.evaluates_few, kinds=_EVALUATION),
    Circumstance("a person looks at each of them", TO_LOW, desktops.shows_each, kinds=_EVALUATION),
    Circumstance("one evaluation after the training", TO_LOW, frequency.evaluates_once, kinds=frozenset({"gradients"})),
    Circumstance("one evaluation after the training", 1, frequency.evaluates_once, kinds=frozenset({"held-graphs"})),
    Circumstance("for a machine without GPU", TO_LOW, place_facts.is_without_gpu),
    Circumstance("its saved outputs name the CPU", TO_LOW, author_machines.names_cpu, not_kinds=AT_START),
    Circumstance(
        "TensorFlow on Windows, where it finds no GPU",
        TO_LOW,
        windows_authors.has_no_gpu_on_windows,
        not_kinds=AT_START,
    ),
    Circumstance("its requirements name PyTorch for the CPU", TO_LOW, cpu_builds.needs_cpu_build, not_kinds=AT_START),
    Circumstance("its logs name the CPU", TO_LOW, author_notes.logs_name_cpu, not_kinds=AT_START),
    Circumstance("its README says that it runs on a CPU", TO_LOW, author_notes.notes_name_cpu, not_kinds=AT_START),
    Circumstance("on the CPU by default", TO_LOW, place_facts.is_on_cpu_by_default, not_kinds=AT_START),
    Circumstance("kept on the CPU", TO_LOW, job_facts.keep_on_cpu, not_kinds=AT_START),
    Circumstance("its model stays on the CPU", TO_LOW, failing_places.leaves_model, not_kinds=AT_START),
    Circumstance("nothing of the program names a device", TO_LOW, place_facts.names_no_device),
    Circumstance("off by default", TO_LOW, place_facts.is_off),
    Circumstance("a training that its jobs leave out", TO_LOW, left_out.is_left_out, not_kinds=AT_START),
    Circumstance("left out by the options of its commands", TO_LOW, passed_switches.is_left_out),
    Circumstance("with another value than the default", TO_LOW, declared_defaults.is_beside_default, kinds=_WAITS),
    Circumstance("a choice that is not the default", TO_LOW, place_facts.is_choice),
    Circumstance("for an option that no call passes", TO_LOW, place_facts.is_for_unpassed_option),
    Circumstance("only for inputs above a limit", TO_LOW, input_limits.is_for_large_input, kinds=_IN_STEPS),
    Circumstance("after the same call failed", TO_LOW, repeats.repeats_try),
    Circumstance("loaded above already", TO_LOW, repeats.repeats_call, kinds=frozenset({"download"})),
    Circumstance("after the same download failed", TO_LOW, repeats.is_fallback, kinds=frozenset({"download"})),
    Circumstance("one GPU", TO_LOW, job_facts.has_one_gpu, kinds=_BETWEEN_GPUS),
    Circumstance("one process by default", TO_LOW, process_options.starts_one_process, kinds=_BETWEEN_GPUS),
    Circumstance("started as one process", TO_LOW, process_options.is_started_alone, kinds=_BETWEEN_PROCESSES),
    Circumstance("nothing is seen to start several processes", TO_LOW, process_options.shows_no_group, kinds=_EXCHANGE),
    Circumstance("only with several GPUs", TO_LOW, place_facts.is_for_several_gpus, kinds=_DATA_PARALLEL),
    Circumstance("one GPU unless an option names more", TO_LOW, gpu_options.names_one_gpu, kinds=_DATA_PARALLEL),
    Circumstance("with an option that nothing sets", TO_LOW, place_facts.is_by_option, kinds=_DATA_PARALLEL),
    Circumstance("as the model above it", TO_LOW, repeats.repeats_wrapper, kinds=_DATA_PARALLEL),
    Circumstance("not trained, beside the model that is", TO_LOW, repeats.is_frozen_beside, kinds=_DATA_PARALLEL),
    Circumstance("DDP is another option here", TO_LOW, place_facts.is_beside_ddp, kinds=_DATA_PARALLEL),
    Circumstance("DDP has a program of its own", TO_LOW, siblings.has_ddp_program, kinds=_DATA_PARALLEL),
    Circumstance("jobs start its distributed version", TO_LOW, siblings.is_superseded),
    Circumstance("a small file of the tree", TO_LOW, siblings.reads_small_file, kinds=frozenset({"cpu-pass"})),
    Circumstance("an example that holds a place", TO_LOW, file_facts.is_example_launcher, kinds=_HELD),
    Circumstance("inference only", TO_LOW, place_facts.only_infers, kinds=_DATA_PARALLEL | _SINGLE),
    Circumstance("a notebook, which torchrun does not start", TO_LOW, file_facts.is_notebook, kinds=_DATA_PARALLEL),
    Circumstance("nothing shows a third GPU", TO_LOW, gpu_signs.shows_few_gpus, kinds=_DATA_PARALLEL),
    Circumstance("it opens windows for a person", TO_LOW, desktops.waits_for_person, kinds=_PAUSE),
    Circumstance("for people, by its name", TO_LOW, file_facts.is_for_people, kinds=frozenset({"interactive"})),
    Circumstance("set in every configuration and command", TO_LOW, worker_settings.has_workers_set, kinds=_IN_PROCESS),
    Circumstance("large samples or a replay buffer", TO_LOW, file_facts.has_large_samples, kinds=_BATCH),
    Circumstance("a template whose program is commented out", TO_LOW, file_facts.is_template, kinds=_IDLE),
    Circumstance("to hold GPUs, by its name", TO_LOW, file_facts.is_placeholder, kinds=_IDLE | _HELD),
    Circumstance("a trial, by the name of its script or queue", TO_LOW, idle_reasons.is_trial, kinds=_IDLE | _INSTALL),
    Circumstance("requested for what comes with it, as a comment says", TO_LOW, idle_reasons.is_for_node, kinds=_IDLE),
    Circumstance(
        "a template, whose addresses are to be replaced", TO_LOW, placeholders.is_to_be_replaced, kinds=_MACHINE
    ),
    Circumstance("its programs use no GPU", TO_LOW, idle_reasons.uses_no_gpu, kinds=_MACHINE),
    Circumstance("submitted with another request", TO_LOW, idle_reasons.is_submitted_otherwise, kinds=_IDLE),
    Circumstance("a session for a person", TO_LOW, job_facts.is_session_of_a_person, kinds=_HELD),
    Circumstance("for the notebooks of a person", TO_LOW, job_facts.prepares_session, kinds=_INSTALL),
    Circumstance("its jobs request no GPUs", TO_LOW, job_facts.requests_no_gpus, not_kinds=AT_START),
    Circumstance("a script without a job", TO_LOW, job_facts.is_without_job, kinds=frozenset({"data-copy"})),
    Circumstance("to the node's own disk", TO_LOW, job_facts.fills_own_disk, kinds=frozenset({"data-copy"})),
    Circumstance("a script that says nothing of GPUs", TO_LOW, job_facts.is_without_gpus, kinds=_INSTALL),
    Circumstance("an environment on the node's disk", 1, job_facts.makes_environment_on_node, kinds=_INSTALL),
    Circumstance(
        "only what a kept folder lacks", TO_LOW, kept_folders.copies_what_is_missing, kinds=frozenset({"data-copy"})
    ),
    Circumstance(
        "shows DataParallel, by its name", TO_LOW, file_facts.is_named_for_data_parallel, kinds=_DATA_PARALLEL
    ),
    Circumstance("no job that holds GPUs runs it", TO_LOW, job_facts.is_without_gpu_jobs, kinds=_HIDDEN),
    Circumstance(
        "an option's default, or for the CPU as a comment says", TO_LOW, chosen_gpus.are_chosen, kinds=_HIDDEN
    ),
    Circumstance("in no job, kept after the first run", TO_LOW, job_facts.is_in_no_job, kinds=_DOWNLOAD),
    Circumstance("all commands name another", TO_LOW, shell_defaults.is_replaced, kinds=_DOWNLOAD),
    Circumstance("the job keeps a cache", TO_LOW, job_facts.keeps_cache, kinds=frozenset({"download"})),
    Circumstance("packages from a folder that is kept", 1, job_facts.keeps_packages, kinds=_INSTALL),
    Circumstance("an environment that is kept", TO_LOW, job_facts.keeps_environment, kinds=_INSTALL),
    Circumstance("sets an environment up, by its name", TO_LOW, job_facts.sets_up_by_name, kinds=_MACHINE),
    Circumstance("memory may not hold more", 1, file_facts.is_sized_for_memory, kinds=frozenset({"small-batch"})),
    Circumstance("a part of the checkpoint above", TO_LOW, repeats.completes_checkpoint, kinds=_ON_DISK),
    Circumstance("set up once for several runs", 1, job_facts.is_machine_setup, kinds=_MACHINE),
    Circumstance(
        "texts that are tokenised already",
        TO_LOW,
        loader_facts.holds_tokenised,
        kinds=frozenset({"in-process-loading"}),
    ),
    Circumstance("its data set is split for another loader", TO_LOW, split_sets.is_split_again, kinds=_OF_LOADER),
    Circumstance("set up as the loader beside it", TO_LOW, loader_facts.follows_loader, kinds=_OF_LOADER),
    Circumstance("as in the branch above", TO_LOW, repeats.repeats_branch, kinds=_OF_LOADER),
    Circumstance("with the copy above it", TO_LOW, repeats.repeats_copy, kinds=frozenset({"transfer"})),
    Circumstance("no workers pin it ahead", TO_LOW, worker_facts.pins_in_process, kinds=_PAGEABLE),
    Circumstance("the data set keeps its samples", TO_LOW, worker_facts.keeps_samples, kinds=_KEPT_BY_WORKERS),
    Circumstance("this process may not start workers", TO_LOW, worker_facts.may_not_start_workers, kinds=_IN_PROCESS),
    Circumstance(
        "its samples change state that the program reads", TO_LOW, worker_facts.counts_samples, kinds=_IN_PROCESS
    ),
    Circumstance("each worker would draw the same samples", TO_LOW, worker_facts.takes_next, kinds=_IN_PROCESS),
    Circumstance("0 workers for Windows, as the program says", TO_LOW, worker_facts.is_for_windows, kinds=_IN_PROCESS),
    Circumstance("simulated clients share the cores", TO_LOW, worker_facts.is_of_simulated_client, kinds=_IN_PROCESS),
    Circumstance("small images of one of many clients", TO_LOW, worker_facts.is_of_small_client, kinds=_IN_PROCESS),
    Circumstance("in a web app", TO_LOW, worker_facts.is_in_web_app, kinds=_OF_LOADER | _IN_STEPS),
    Circumstance(
        'workers need `if __name__ == "__main__"` there', TO_LOW, worker_facts.cannot_start_workers, kinds=_IN_PROCESS
    ),
    Circumstance(
        "workers cannot be sent what they need there",
        TO_LOW,
        worker_facts.cannot_be_sent,
        kinds=_IN_PROCESS,
    ),
    Circumstance(
        "spawned workers repeat work or copy the data", TO_LOW, worker_facts.costs_more_when_spawned, kinds=_IN_PROCESS
    ),
    Circumstance("the tree keeps 0 workers on Windows", TO_LOW, worker_facts.has_none_on_windows, kinds=_IN_PROCESS),
    Circumstance("one of dozens of loaders", TO_LOW, worker_facts.is_one_of_dozens, kinds=_IN_PROCESS),
    Circumstance("restarted after some batches", TO_LOW, worker_facts.starts_anew, kinds=_IN_PROCESS),
    Circumstance(
        "iterated over in each step of another loader", TO_LOW, worker_facts.is_iterated_in_steps, kinds=_IN_PROCESS
    ),
    Circumstance("workers start again for each pass", 1, worker_facts.restarts_for_little, kinds=_IN_PROCESS),
    Circumstance("a linear probe on small images", 1, linear_probes.probes_small_images, kinds=_IN_PROCESS),
    Circumstance("the program keeps its batches", TO_LOW, worker_facts.keeps_batches, kinds=_IN_PROCESS),
    Circumstance("some seconds in all epochs", TO_LOW, loader_facts.takes_short_in_all, kinds=_IN_PROCESS),
    Circumstance(
        "workers start in the time of an epoch", TO_LOW, loader_facts.starts_longer_than_it_loads, kinds=_IN_PROCESS
    ),
    Circumstance(
        "samples in memory, only picked or transformed", TO_LOW, loader_facts.only_transforms, kinds=_IN_PROCESS
    ),
    Circumstance("its samples move one by one", TO_LOW, loader_facts.moves_one_by_one, kinds=_COPIES),
    Circumstance("one or two batches hold all samples", TO_LOW, worker_facts.makes_one_batch, kinds=_OF_LOADER),
    Circumstance("a few batches hold all samples", TO_LOW, worker_facts.has_short_passes, kinds=_IN_PROCESS),
    Circumstance(
        "a command passes 0 over another default", TO_LOW, worker_facts.is_passed_over_default, kinds=_IN_PROCESS
    ),
    Circumstance("chosen, as a comment says", TO_LOW, worker_facts.is_chosen, kinds=_IN_PROCESS),
    Circumstance("pin_memory=False is written out", TO_LOW, worker_facts.is_unpinned_by_choice, kinds=_PAGEABLE),
    Circumstance("its workers take far longer for a batch", TO_LOW, loading_limits.loads_longer, kinds=_PAGEABLE),
    Circumstance("few images of unknown size", TO_LOW, worker_facts.copies_few_images, kinds=_PAGEABLE),
    Circumstance("several passes for each batch", 1, step_lengths.passes_several_times, kinds=_COPIES),
    Circumstance("many passes for each batch", 1, step_lengths.attacks_each_batch, kinds=_IN_PROCESS),
    Circumstance("its batches are only kept", TO_LOW, loader_facts.feeds_no_model, kinds=_COPIES),
    Circumstance("one pass beside the training", TO_LOW, loader_facts.is_drawn_once, kinds=_OF_LOADER),
    Circumstance("a switch ends the first round", TO_LOW, loader_facts.is_left_at_once, kinds=_OF_LOADER | _IN_STEPS),
    Circumstance("one micro-step, as far as is known", TO_LOW, micro_steps.accumulates_once, kinds=_EXCHANGE),
    Circumstance("one epoch", TO_LOW, place_facts.is_one_epoch, kinds=frozenset({"worker-start"})),
    Circumstance("long steps of many passes", 1, step_lengths.passes_often, kinds=frozenset({"allocator-flush"})),
    Circumstance("a loop of few steps", TO_LOW, few_rounds.takes_few_steps, kinds=_IN_STEPS),
    Circumstance("a loop of few steps", TO_LOW, few_rounds.draws_few, kinds=_OF_LOADER),
    Circumstance("beside text that each step generates", TO_LOW, step_lengths.generates_in_each, kinds=_WAITS | _FLUSH),
    Circumstance(
        "beside text that each step generates", TO_LOW, step_lengths.loads_beside_generation, kinds=_IN_PROCESS
    ),
    Circumstance(
        "each step samples from a diffusion model", TO_LOW, sampling_steps.loads_beside_sampling, kinds=_OF_LOADER
    ),
    Circumstance(
        "each step samples from a diffusion model", TO_LOW, sampling_steps.waits_beside_sampling, kinds=_WAITS
    ),
    Circumstance("under a condition that may never hold", TO_LOW, frequency.may_never_happen, kinds=_IN_STEPS),
    Circumstance("beside many steps of an environment", TO_LOW, step_lengths.steps_through_environment, kinds=_WAITS),
    Circumstance("beside what each step waits for elsewhere", TO_LOW, slow_steps.waits_elsewhere, kinds=_WAITS),
    Circumstance("one of several trainings", 1, place_facts.has_few_repetitions, kinds=_OF_TRAINING),
    Circumstance("outside of the training steps", 1, place_facts.has_few_repetitions, not_kinds=_OF_TRAINING),
)
"""What lowers, in the order in which the basis tells it."""
