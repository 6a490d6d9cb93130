"""``python -m render verify``: renders images of a dataset again, and compares."""

import math
import sys
from dataclasses import dataclass, field

import tyro

from ident3d.commandline import EXIT_FAILED, EXIT_OK, write_json
from render.blender.pool import PoolSpec
from render.dataset.verify import Comparison, VerifySpec, verify_images

__all__ = ["VerifyImages"]


@dataclass(frozen=True, kw_only=True)
class VerifyImages:
    """Render random images of a dataset again, from the settings in its manifest, and compare with the stored ones.

    On the same Blender and device the pixels are equal; on another device they may differ by rounding. Of the half a
    million pairs of different images in the sample, the most similar one has 27.8 dB. ``ident3d verify`` checks the
    files, and needs no Blender.

    Examples:
        python -m render verify data/small
        python -m render verify sample --sample 8 --json
    """

    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    sample: int = VerifySpec.sample
    """Number of images."""
    seed: int = VerifySpec.seed
    """Seed of the choice of images."""
    tolerance: float = VerifySpec.tolerance_db
    """Lowest peak signal-to-noise ratio that counts as the same image, in dB."""
    json: bool = False
    """Print what is found as JSON."""

    pool: PoolSpec = field(default_factory=PoolSpec)

    def run(self) -> int:
        """Compare; return the exit status."""
        spec = VerifySpec(sample=self.sample, seed=self.seed, tolerance_db=self.tolerance)
        report = verify_images(self.root, spec, self.pool)
        status = EXIT_FAILED if report.different else EXIT_OK
        if self.json:
            write_json({"same": not report.different, "images": [_plain(found) for found in report.comparisons]})
            return status
        for found in report.comparisons:
            value = "equal" if math.isinf(found.psnr) else f"{found.psnr:.1f} dB"
            sys.stdout.write(f"{found.image}: {value}\n")
        if report.different:
            different = ", ".join(map(str, report.different))
            sys.stdout.write(f"{report.root}: below {self.tolerance:g} dB: {different}\n")
        else:
            count = len(report.comparisons)
            sys.stdout.write(f"{report.root}: {count} images are as the manifest describes them\n")
        return status


def _plain(found: Comparison) -> dict[str, str | bool | float | None]:
    equal = math.isinf(found.psnr)
    return {"image": str(found.image), "equal": equal, "psnr_db": None if equal else found.psnr}
