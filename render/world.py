"""The law that makes a scene out of a row of latents; 3DIdent is the default instance.

A :class:`World` is a scene in which some numbers are names of factors. A variant with other ranges, factors,
objects, lights, saturations or materials is another instance and no other code: nothing here or below knows a factor by
its column.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.factors import FACTORS, Factors
from ident3d.latents import check_latents, to_physical
from render.hue import HueMap
from render.law import BodyLaw, LightLaw, Orbit, Paint
from render.plain import from_plain, to_plain
from render.scene import Camera, LightKind, Scene

__all__ = ["World"]

TEAPOT_SCALE = 1.5
TEAPOT_WIDTH = 4.4421
"""Largest dimension of the 3DIdent teapot at its scale, in Blender units; S in the scene's numbers."""


def _teapot() -> BodyLaw:
    return BodyLaw(
        name="object",
        shape="utah_teapot",
        scale=TEAPOT_SCALE,
        paint=Paint("object_hue", saturation=1.0),
        location=("position_x", "position_y", "position_z"),
        offset=(0.0, 0.0, TEAPOT_WIDTH / 2),
        rotation=("rotation_x", "rotation_y", "rotation_z"),
    )


def _ground() -> BodyLaw:
    return BodyLaw(
        name="ground",
        shape="plane",
        scale=1500.0,
        paint=Paint("ground_hue", saturation=0.6),
        location=(0.0, 0.0, -TEAPOT_WIDTH),
    )


def _lights() -> tuple[LightLaw, ...]:
    down = (0.0, 0.0, 0.0)
    return (
        LightLaw("zenith", LightKind.SUN, power=0.5, size=0.199337, location=(0.0, 0.0, 10.0), target=down),
        LightLaw("area", LightKind.AREA, power=39.2699, size=1.0, location=(0.0, 0.0, 7.0), target=down),
        LightLaw(
            "spotlight",
            LightKind.SPOT,
            power=3000.0,
            size=0.5,
            location=Orbit("spotlight_angle", radius=4.0, height=6.0 + TEAPOT_WIDTH),
            target="object",
            paint=Paint("spotlight_hue", saturation=0.8),
            cone=math.radians(35.0),
            blend=0.1,
            draws=2,
        ),
    )


@dataclass(frozen=True)
class World:
    """The factors of a dataset and the scenes that they make; by default those of 3DIdent.

    Every factor has to stand somewhere in the scene, and every name in the scene has to be a factor's: a latent
    without effect, or an effect without a latent, is a mistake in the description.

    Attributes:
        factors: one for each column of the latents.
        hue_map: how a hue becomes a colour.
        camera: the camera, the same in every picture.
        bodies: the meshes.
        lights: the lamps.
    """

    factors: Factors = FACTORS
    hue_map: HueMap = HueMap.WRAPPED
    camera: Camera = field(default_factory=Camera)
    bodies: tuple[BodyLaw, ...] = field(default_factory=lambda: (_teapot(), _ground()))
    lights: tuple[LightLaw, ...] = field(default_factory=_lights)

    def __post_init__(self) -> None:
        names = {body.name for body in self.bodies}
        for light in self.lights:
            if isinstance(light.target, str) and light.target not in names:
                raise ValueError(f"light {light.name} is aimed at {light.target!r}; the bodies are {sorted(names)}")
        laws: list[BodyLaw | LightLaw] = [*self.bodies, *self.lights]
        used = {parameter for law in laws for parameter in law.parameters if isinstance(parameter, str)}
        if used != set(self.factors.names):
            unknown, idle = sorted(used - set(self.factors.names)), sorted(set(self.factors.names) - used)
            raise ValueError(f"the scene names factors that there are not: {unknown}; and leaves out: {idle}")

    def with_hue_map(self, hue_map: HueMap | str) -> "World":
        """Return this world with another hue map."""
        return replace(self, hue_map=HueMap(hue_map))

    def scene(self, latents: npt.ArrayLike) -> Scene:
        """Return the scene of one row of latents.

        Args:
            latents: (len(factors),) raw latents in [-1, 1].

        Raises:
            ValueError: if the shape is another, or a latent is not finite or outside [-1, 1].
        """
        row = np.asarray(latents)
        if row.ndim != 1:
            raise ValueError(f"expected one row of {len(self.factors)} latents, got shape {row.shape}")
        physical = to_physical(check_latents(row[None], self.factors)[0], self.factors)
        values = dict(zip(self.factors.names, physical.tolist(), strict=True))
        bodies = tuple(law.body(values, self.hue_map) for law in self.bodies)
        places = {body.name: body.location for body in bodies}
        lights = tuple(law.light(values, self.hue_map, places) for law in self.lights)
        return Scene(self.camera, bodies, lights, gamut_checked=self.hue_map.stays_in_gamut)

    def to_json(self) -> dict[str, Any]:
        """Return the world as plain data, for a manifest."""
        return {"factors": self.factors.to_json()} | {
            item.name: to_plain(getattr(self, item.name)) for item in fields(self) if item.name != "factors"
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "World":
        """Return the world that :meth:`to_json` wrote; ValueError if the data describe none."""
        if "factors" not in data:
            raise ValueError(f"expected the fields of a world, got {', '.join(map(str, data))}")
        return from_plain(cls, {**data, "factors": {"items": data["factors"]}})
