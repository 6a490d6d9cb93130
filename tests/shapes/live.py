"""Example calls for pairs whose images are rendered as they are asked for."""

import torch

from ident3d import LivePairs, LivePool, Normal

HOME = "ident3d.pairs.live"
EXAMPLES = {
    f"{HOME}.LivePairs.latents": lambda: (LivePairs(Normal(0.1), 3, resolution=8, device="cpu", grid=2), 5),
    f"{HOME}.LivePool.pixels": lambda: (LivePool(4, resolution=8, device="cpu", grid=2), torch.tensor([3, 1])),
}
