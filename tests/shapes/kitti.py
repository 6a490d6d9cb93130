"""Example calls for masks."""

import torch

from ident3d import walkers

EXAMPLES = {
    "ident3d.kitti.masks.MaskSequences.pixels": lambda: (walkers(2), torch.tensor([1, 0])),
    "ident3d.kitti.masks.MaskSequences.pedestrians": lambda: (walkers(2),),
}
