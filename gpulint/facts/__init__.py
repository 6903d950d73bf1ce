"""Facts: what code means, computed once per module or project and asked by rules. Unknown stays unknown.

Values: ``scopes`` ``collecting`` ``reaching`` ``names`` ``classes`` ``resolve`` ``callsites`` ``passing`` ``memo``
tell what a name or expression may be, through the tree; ``values`` ``arguments`` ``options`` ``overrides``
``run_settings`` ``configs`` ``trials`` ``recipes`` ``submitted`` ``texts`` ``environment`` find constants and who
sets them; ``collected`` what lists and dictionaries hold, ``yacs`` what its configurations default to,
``training_configs`` what files of a training set for its loaders.

Training: ``iterables`` ``roles`` ``loops`` ``repeated`` ``conditions`` ``periodic`` ``guards`` ``inference``
``after_training`` ``acting`` ``unused`` ``opted_in`` ``shared_loops`` ``modes`` tell what runs in a training step, an
epoch, once, or never.

Data: ``loaders`` ``loader_classes`` ``batch_samplers`` ``prepared`` ``fastai`` ``mapped`` ``sample_work``
``input_path`` ``image_sets`` ``transforms`` ``corpus_passes`` tell how batches are made; ``draws`` ``placing``
``forwards`` ``glances`` ``feeding`` ``devices`` ``rearranging`` ``unseen_calls`` ``own_batches`` ``tensors``
``type_tests`` ``syncs`` ``host_models`` ``wrapped`` ``collectives`` ``reduced`` follow them to the GPU and results
from it; ``accumulation`` ``batches`` ``eval_batches`` ``frozen`` ``batch_bounds`` ``small_batches`` ``paired_sizes``
``deepspeed`` tell how large they are.

Outside: ``remote`` ``downloads`` ``fetched`` ``fetching`` ``download_tables`` ``data_set_classes`` ``hubs``
``hub_ids`` ``staging`` ``uploads`` ``checkpoints`` ``fetch_commands`` ``escapes`` ``local_copies`` tell what leaves
or enters the machine.

Jobs: ``launches`` ``launch_env`` ``launch_grammars`` ``launch_options`` ``launch_processes`` ``launchers``
``schedulers`` ``workdir`` ``linking`` ``locating`` link launchers to programs; ``gpus`` ``counts`` ``templated``
``gpu_jobs`` ``gpu_programs`` ``workflow_steps`` ``cpu_workers`` ``shipped`` ``gpu_libraries`` ``gpuuse`` ``idling``
``servers`` ``whole_program`` ``tensorflow_release`` count GPUs and processes, and tell what they are held for.
"""
