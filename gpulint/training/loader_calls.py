"""Classes that load batches for PyTorch, and the calls that make one."""

from __future__ import annotations

import ast

from gpulint.records import dataclass
from gpulint.semantic.module_index import CallSite

TORCH_LOADERS = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch.utils.data.dataloader.DataLoader",
        "torchdata.stateful_dataloader.StatefulDataLoader",
        "determined.pytorch.DataLoader",
        "monai.data.DataLoader",
        "monai.data.dataloader.DataLoader",
        "webdataset.WebLoader",
        "wds.WebLoader",
        "torch_geometric.loader.DataLoader",
        "torch_geometric.data.DataLoader",
        "torch_geometric.loader.DenseDataLoader",
        "torch_geometric.loader.NeighborLoader",
        "torch_geometric.loader.LinkNeighborLoader",
        "torch_geometric.loader.HGTLoader",
        "torch_geometric.loader.ClusterLoader",
        "torch_geometric.loader.GraphSAINTRandomWalkSampler",
        "torch_geometric.loader.ShaDowKHopSampler",
        "torch_geometric.loader.NeighborSampler",
        "torch_geometric.loader.RandomNodeLoader",
        "torch_geometric.loader.DataListLoader",
        "dgl.dataloading.DataLoader",
        "dgl.dataloading.GraphDataLoader",
        "dgl.dataloading.NodeDataLoader",
        "dgl.dataloading.EdgeDataLoader",
    }
)
"""Classes that take the parameters of ``torch.utils.data.DataLoader`` and hand them on."""

_SAMPLING = (
    "NeighborLoader",
    "LinkNeighborLoader",
    "HGTLoader",
    "NeighborSampler",
    "ShaDowKHopSampler",
    "NodeDataLoader",
    "EdgeDataLoader",
)


@dataclass(frozen=True, slots=True)
class Loader(CallSite):
    """A call that makes a data loader. ``call.node`` is the call; ``name`` its qualified class."""

    name: str

    @property
    def variable(self) -> str:
        """Name that the loader is assigned to, as written; '' if it has none."""
        parent = self.module.syntax.parents.get(self.node)
        target = (
            parent.targets[0]
            if isinstance(parent, ast.Assign)
            else parent.target
            if isinstance(parent, ast.AnnAssign)
            else None
        )
        return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""

    @property
    def samples_graph(self) -> bool:
        """A graph sampler, whose feature tensors may already be on the GPU."""
        return self.name.rsplit(".", 1)[-1] in _SAMPLING

    @property
    def device(self) -> ast.expr | None:
        """The device on which DGL's loaders put their batches themselves, if one is given."""
        if not self.name.startswith("dgl."):
            return None
        return next((keyword.value for keyword in self.node.keywords if keyword.arg == "device"), None)
