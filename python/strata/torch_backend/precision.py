"""How far torch lets libraries round f32."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

aten = torch.ops.aten
_CONVOLUTIONS = (aten.convolution.default, aten.convolution_backward.default)


def rounds_convolutions() -> bool:
    """Whether cuDNN may now round operands of f32 convolutions to TF32: torch.backends.cudnn.conv.fp32_precision.

    torch before 2.9 has torch.backends.cudnn.allow_tf32 instead, which later versions refuse to read where recurrent
    layers and convolutions are set differently. Without cuDNN torch convolves by kernels of its own, in f32."""
    cudnn = torch.backends.cudnn
    if not cudnn.enabled:
        return False
    of_convolutions = getattr(cudnn, "conv", None)
    return cudnn.allow_tf32 if of_convolutions is None else of_convolutions.fp32_precision == "tf32"


def is_rounded(node: torch.fx.Node) -> bool:
    """Whether that setting matters to a node: it convolves f32 on a GPU."""
    if node.target not in _CONVOLUTIONS:
        return False
    results = [v for v in pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
    return any(v.dtype == torch.float32 and v.device.type == "cuda" for v in results)


def has_rounded(gm: torch.fx.GraphModule) -> bool:
    """Whether it matters to a graph or to the functions that its operators call."""
    graphs = [module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]
    return any(is_rounded(node) for graph in graphs for node in graph.nodes)
