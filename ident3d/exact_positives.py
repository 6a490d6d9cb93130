"""The latents of exact positives: for every row one draw from a conditional, around the latents of the row."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ident3d.randomness import torch_generator

if TYPE_CHECKING:
    from ident3d.conditionals import Conditional

__all__ = ["exact_positives"]


def exact_positives(
    latents: npt.NDArray[np.float32], conditional: "Conditional", seed: int, *, split: str = "train", start: int = 0
) -> npt.NDArray[np.float32]:
    """Draw the latents of one positive for every row, on the box [-1, 1]^d.

    Row i depends on its own latents and on (seed, split, start + i) only.

    Args:
        latents: (n, d) raw latents.
        conditional: what the positives are drawn from.
        seed: seed of the dataset, 0 or larger.
        split: name of the split.
        start: index of the first row within the split.

    Returns:
        (n, d) float32 in [-1, 1].

    Raises:
        ValueError: if the conditional is not defined on the box.
    """
    import torch  # loaded here, since a dataset without exact positives is rendered without torch

    from ident3d.spaces import Box

    space = Box(latents.shape[1])
    positives = np.empty_like(latents, dtype=np.float32)
    for row, anchor in enumerate(torch.from_numpy(np.array(latents, dtype=np.float32))):
        generator = torch_generator(seed, f"pairs/{split}", start + row)
        positives[row] = conditional.sample(anchor[None], space, generator)[0].numpy()
    return positives
