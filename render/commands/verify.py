"""``python -m render verify``: renders rows of a dataset again, and compares."""

import logging
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from ident3d.storage.layouts import resolve_root
from ident3d.storage.manifest import MANIFEST_NAME, Manifest
from render.commands.hardware import Hardware
from render.dataset.plan import Recipe, series_of
from render.dataset.verify import Comparison, compare, sampled

__all__ = ["Verify"]

_LOG = logging.getLogger("ident3d.render")


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Render random rows of a dataset again, from what its manifest stores, and compare them with the stored images.

    On the same Blender and device the pixels are equal; on another device they may differ by rounding. Among the half
    a million pairs of the sample's images, the two that are most alike have 27.8 dB. ``ident3d verify`` checks the
    files, and needs no Blender.

    Examples:
        python -m render verify data/small
        python -m render verify sample --sample 8 --json
    """

    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    sample: int = 8
    """How many images."""
    seed: int = 0
    """Seed of the choice of images."""
    tolerance: float = 40.0
    """Lowest peak signal-to-noise ratio that counts as the same image, in dB."""
    json: bool = False
    """Print what is found as JSON."""

    hardware: Hardware = field(default_factory=Hardware)

    def run(self) -> int:
        """Compare; return the exit status."""
        if not self.tolerance > 0:  # NaN neither
            raise ValueError(f"--tolerance is a positive number of dB, not {self.tolerance}")
        root = Path(resolve_root(self.root))
        if not (root / MANIFEST_NAME).exists():
            raise FileNotFoundError(
                f"{root} has no {MANIFEST_NAME}, so that nothing says how its images were made: only datasets that "
                "python -m render made can be rendered again. ident3d verify checks the files of any dataset"
            )
        manifest = Manifest.read(root)
        recipe = Recipe.of(manifest)
        images = sampled(root, self.sample, self.seed)
        with self.hardware.pool(recipe.quality, manifest.resolution) as pool:
            if recipe.blender != series_of(pool.about.blender):
                _LOG.warning("rendered with Blender %s, compared with %s", recipe.blender, pool.about.blender)
            comparisons = compare(root, images, pool)
        different = [str(found.image) for found in comparisons if found.psnr < self.tolerance]
        if self.json:
            write_json({"same": not different, "images": [_plain(found) for found in comparisons]})
            return EXIT_FAILED if different else EXIT_OK
        for comparison in comparisons:
            value = "equal" if math.isinf(comparison.psnr) else f"{comparison.psnr:.1f} dB"
            sys.stdout.write(f"{comparison.image}: {value}\n")
        if different:
            sys.stdout.write(f"{root}: below {self.tolerance:g} dB: {', '.join(different)}\n")
            return EXIT_FAILED
        sys.stdout.write(f"{root}: {len(comparisons)} images are those that the manifest describes\n")
        return EXIT_OK


def _plain(found: Comparison) -> dict[str, str | bool | float | None]:
    equal = math.isinf(found.psnr)
    return {"image": str(found.image), "equal": equal, "psnr_db": None if equal else found.psnr}
