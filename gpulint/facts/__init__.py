"""Facts: what code means, computed once per module or project and asked by rules. Unknown stays unknown.

``scopes``     which names a module binds, where and to what
``resolve``    what an expression may be: qualified names, defining expressions, the functions a call reaches
``values``     constants through assignments, keyword dictionaries, option parsers, configs and launchers
``loops``      training-step, epoch and evaluation loops, and the functions that run inside them
``guards``     what a statement is conditional on (every N steps, rank 0, a debug flag, no_grad)
``loaders``    data loaders, the batches that come out of them and where they go
``devices``    where tensors live and move
"""
