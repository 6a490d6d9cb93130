"""``python -m render traversal``: what each factor does to the image."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_OK
from render.blender.pool import PoolSpec
from render.blender.quality import DEFAULT_QUALITY
from render.commands.options import HueMapName, QualityName
from render.dataset.spec import find_world
from render.figures import TraversalSpec, check_output, traversal

__all__ = ["Traversal"]


@dataclass(frozen=True, kw_only=True)
class Traversal:
    """Draw what each factor does: a column per factor, which varies over its range while the others are fixed.

    Examples:
        python -m render traversal traversal.png
        python -m render traversal traversal.png --world examples/saturation.json --steps 5 --resolution 96
    """

    out: tyro.conf.Positional[Path]
    """The image to write, for example a name that ends in .png."""
    world: Path | None = None
    """A world as JSON, whose factors are shown; by default that of 3DIdent."""
    steps: int = TraversalSpec.steps
    """Values of each factor, from -1 to 1."""
    resolution: int = TraversalSpec.resolution
    """Width and height of one image in pixels."""
    seed: int = TraversalSpec.seed
    """Seed of the values of the fixed factors."""
    quality: QualityName = DEFAULT_QUALITY
    """Quality of the images."""
    hue_map: HueMapName | None = None
    """How hue angles map to colours; by default the world decides: "wrapped" in that of 3DIdent."""

    pool: PoolSpec = field(default_factory=PoolSpec)

    def run(self) -> int:
        """Render and write; return the exit status."""
        world = find_world(self.world, self.hue_map)
        spec = TraversalSpec(
            world=world, steps=self.steps, resolution=self.resolution, seed=self.seed, quality=self.quality
        )
        check_output(self.out)
        image = traversal(spec, self.pool)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        image.save(self.out)
        sys.stdout.write(f"{self.out}: {self.steps} values of {len(world.factors)} factors\n")
        return EXIT_OK
