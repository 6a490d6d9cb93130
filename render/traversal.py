"""What each factor does to the picture: one factor at a time goes through its range, the others stay."""

import numpy as np
import numpy.typing as npt
from PIL import Image

from ident3d.randomness import integer_seed
from ident3d.scene.world import World
from ident3d.storage.picture import decode
from render.mosaic import mosaic
from render.pool import Job, Pool

__all__ = ["traversal", "traversal_latents"]


def traversal_latents(base: npt.NDArray[np.float32], steps: int) -> npt.NDArray[np.float32]:
    """Return the latents of a traversal.

    Args:
        base: (d,) raw latents that the factors have while they stay.
        steps: number of values from -1 to 1, 2 or more.

    Returns:
        (steps, d, d) float32: at [i, j] all of ``base``, but for factor j, which has the i-th value.
    """
    if steps < 2:
        raise ValueError(f"a traversal has 2 or more steps, not {steps}")
    latents = np.tile(np.asarray(base, dtype=np.float32), (steps, len(base), 1))
    columns = np.arange(len(base))
    latents[:, columns, columns] = np.linspace(-1, 1, steps, dtype=np.float32)[:, None]
    return latents


def traversal(world: World, base: npt.NDArray[np.float32], steps: int, pool: Pool) -> Image.Image:
    """Render a traversal: a column for each factor, its raw value rising from -1 at the top to 1 at the bottom.

    Args:
        world: the law that makes a scene out of latents.
        base: (d,) raw latents that the factors have while they stay.
        steps: number of values of each factor, 2 or more.
        pool: the workers, started.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, ICML 2021, Figure 3.
    """
    latents = traversal_latents(base, steps)
    places = list(np.ndindex(latents.shape[:2]))
    jobs = (
        Job(place, world.scene(latents[place]), integer_seed(0, "traversal", number))
        for number, place in enumerate(places)
    )
    pictures = {place: decode(png, f"the picture at {place}") for place, png in pool.render(jobs)}
    grid = np.stack([pictures[place] for place in places])
    values = [f"{value:+.2f}" for value in np.linspace(-1, 1, steps)]
    names = [name.replace("_", " ") for name in world.factors.names]
    return mosaic(grid.reshape(*latents.shape[:2], *grid.shape[1:]), names, values)
