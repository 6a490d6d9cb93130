"""``python -m render traversal``: what each factor does to the image."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_OK
from ident3d.latents import sample_latents
from ident3d.scene.world import World
from render.blender.quality import quality
from render.commands.hardware import Hardware, HueMapName, QualityName
from render.figures import check_output, traversal, traversal_latents

__all__ = ["Traversal"]

_INNER = 0.5  # the factors that stay are drawn from the inner half of their range


@dataclass(frozen=True, kw_only=True)
class Traversal:
    """Draw what each factor does: a column a factor, which goes through its range while the others stay.

    Examples:
        python -m render traversal traversal.png
        python -m render traversal traversal.png --steps 5 --resolution 96
    """

    out: tyro.conf.Positional[Path]
    """The image to write, PNG by its name."""
    steps: int = 7
    """Values of each factor, from -1 to 1."""
    resolution: int = 128
    """Width and height of one image in pixels."""
    seed: int = 0
    """Seed of the values that factors have while they stay."""
    quality: QualityName = "standard"
    """Quality of the images."""
    hue_map: HueMapName = "wrapped"
    """How hue angles become colours."""

    hardware: Hardware = field(default_factory=Hardware)

    def run(self) -> int:
        """Render and write; return the exit status."""
        world = World().with_hue_map(self.hue_map)
        base = _INNER * sample_latents(1, self.seed, split="traversal", factors=world.factors)[0]
        traversal_latents(base, self.steps)  # says what is wrong before Blender is started
        check_output(self.out)
        with self.hardware.pool(quality(self.quality), self.resolution) as pool:
            image = traversal(world, base, self.steps, pool)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        image.save(self.out)
        sys.stdout.write(f"{self.out}: {self.steps} values of {len(world.factors)} factors\n")
        return EXIT_OK
