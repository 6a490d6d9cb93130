"""How the pictures of a dataset are made, as it stands in the manifest."""

from dataclasses import dataclass
from typing import Any

from ident3d.errors import DatasetError
from ident3d.scene.world import World
from ident3d.storage.manifest import Manifest
from render.quality import Quality

__all__ = ["Recipe", "series_of"]


@dataclass(frozen=True)
class Recipe:
    """What a picture follows from, beside its latents, its sampling seed and the resolution.

    Attributes:
        world: the law that makes a scene out of latents, with the hue map.
        quality: settings of the sampler and the denoiser.
        blender: series of Blender, "4.5" say; None until a worker has told it.
    """

    world: World
    quality: Quality
    blender: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as plain data, for ``Manifest.render``. The factors stand in the manifest itself."""
        world = self.world.to_json()
        del world["factors"]
        return {
            "hue_map": world.pop("hue_map"),
            "quality": self.quality.to_json(),
            "blender": self.blender,
            "world": world,
        }

    @classmethod
    def of(cls, manifest: Manifest) -> "Recipe":
        """Return the recipe of a rendered dataset.

        Raises:
            DatasetError: if its manifest does not say how its pictures were made, or not in a way that is understood.
        """
        try:
            data = dict(manifest.render)
            world = {"factors": manifest.factors.to_json(), "hue_map": data["hue_map"], **data["world"]}
            return cls(World.from_json(world), Quality.from_json(data["quality"]), data["blender"])
        except KeyError as error:
            raise DatasetError(
                f"the manifest does not say how the pictures were made: render.{error.args[0]} is missing; only "
                "datasets that python -m render made can be rendered again"
            ) from error
        except (TypeError, ValueError) as error:
            raise DatasetError(
                f"the manifest describes its pictures in a way that is not understood: {error}"
            ) from error


def series_of(blender: str) -> str:
    """Return the series that a version of Blender belongs to: "4.5" for "4.5.15 LTS"."""
    return ".".join(blender.split(".")[:2])
