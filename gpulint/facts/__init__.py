"""Facts: what code means, computed once per module or project and asked by rules. Unknown stays unknown.

Values: ``scopes`` ``collecting`` ``reaching`` ``names`` ``classes`` ``resolve`` ``callsites`` ``passing`` ``memo``
tell what a name or expression may be, through the tree; ``values`` ``arguments`` ``options`` ``configs``
``environment`` find constants and who sets them.

Training: ``iterables`` ``roles`` ``loops`` ``repeated`` ``conditions`` ``periodic`` ``guards`` ``inference``
``after_training`` tell what runs in a training step, an epoch, once, or never.

Data: ``loaders`` ``fastai`` ``feeding`` ``devices`` ``tensors`` ``syncs`` ``batches`` ``eval_batches`` ``deepspeed``
``batch_bounds`` ``input_path`` ``checkpoints`` ``collectives`` follow data to the GPU and results from it.

Outside: ``remote`` ``downloads`` ``fetching`` ``hubs`` ``staging`` ``uploads`` ``fetch_commands`` tell what leaves
or enters the machine.

Jobs: ``launches`` ``launchers`` ``schedulers`` ``linking`` ``locating`` ``gpus`` ``gpu_jobs`` ``gpu_programs``
``gpuuse`` ``whole_program`` link launchers to programs and count GPUs and processes.
"""
