"""The law that makes a scene out of a row of latents; 3DIdent is the default instance.

A :class:`World` is a scene in which some numbers are names of factors. A variant with other ranges, factors,
objects, lights, saturations or materials is another instance and no other code: nothing here or below knows a factor by
its column.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.codec import from_json, to_json
from ident3d.factors import FACTORS, Factors
from ident3d.latents import check_latents, to_physical
from ident3d.scene.meshes import SHAPES
from ident3d.scene.scene import Body, Camera, Colour, Light, LightKind, Material, Scene, Vector, check_cone

__all__ = ["BodyLaw", "HueMap", "LightLaw", "Orbit", "Paint", "Parameter", "Values", "World"]


class HueMap(StrEnum):
    """How an angle on the hue circle becomes a colour.

    Attributes:
        WRAPPED: the hue is the angle in turns, modulo 1; injective over a range shorter than a turn.
        PUBLISHED: the map of the downloadable 3DIdent. Its hue is not brought into [0, 1), and the conversion
            rounds the sector of the hue towards zero, so negative angles leave the gamut: channels below 0, which
            Blender shows as black, or above 1.
    """

    WRAPPED = "wrapped"
    PUBLISHED = "published"

    @property
    def stays_in_gamut(self) -> bool:
        """Whether every colour of the map has its channels in [0, 1]."""
        return self is HueMap.WRAPPED

    def rgb(self, angle_rad: float, saturation: float, value: float = 1.0) -> tuple[float, float, float]:
        """Return the colour of an angle.

        Args:
            angle_rad: angle on the hue circle, in radians; 2 pi is one turn.
            saturation: HSV saturation in [0, 1].
            value: HSV value in [0, 1].

        Returns:
            Red, green and blue, linear; in [0, 1] if :attr:`stays_in_gamut`.

        Raises:
            ValueError: if the angle is not finite, or saturation or value is outside [0, 1].
        """
        if not math.isfinite(angle_rad):
            raise ValueError(f"a hue is a finite angle in radians, not {angle_rad}")
        if not (0 <= saturation <= 1 and 0 <= value <= 1):
            raise ValueError(f"saturation and value lie in [0, 1], not {saturation} and {value}")
        turns = angle_rad / (2 * math.pi)
        if self is HueMap.WRAPPED:
            turns %= 1.0
        sector = math.trunc(turns * 6)
        fraction = turns * 6 - sector
        low = value * (1 - saturation)
        falling = value * (1 - saturation * fraction)
        rising = value * (1 - saturation * (1 - fraction))
        sectors = (
            (value, rising, low),
            (falling, value, low),
            (low, value, rising),
            (low, falling, value),
            (rising, low, value),
            (value, low, falling),
        )
        return sectors[sector % 6]


Parameter = float | str
"""A constant, or the name of the factor whose physical value stands here."""

Values = Mapping[str, float]
"""The physical value of every factor, by its name."""


@dataclass(frozen=True)
class Paint:
    """A colour by hue, saturation and value.

    Attributes:
        hue: angle on the hue circle in radians.
        saturation: HSV saturation in [0, 1].
        value: HSV value in [0, 1].
    """

    hue: Parameter
    saturation: float
    value: float = 1.0

    def __post_init__(self) -> None:
        if not (0 <= self.saturation <= 1 and 0 <= self.value <= 1):
            raise ValueError(f"saturation and value lie in [0, 1], not {self.saturation} and {self.value}")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Everything in which a factor's name may stand."""
        return (self.hue,)

    def colour(self, values: Values, hue_map: HueMap) -> Colour:
        """Return the colour at the factors' values."""
        return hue_map.rgb(_number(self.hue, values), self.saturation, self.value)


WHITE = Paint(hue=0.0, saturation=0.0)


@dataclass(frozen=True)
class Orbit:
    """A place on a horizontal circle around the z axis.

    Attributes:
        angle: from the y axis towards the x axis, in radians.
        radius: radius of the circle.
        height: z of the circle.
    """

    angle: Parameter
    radius: float
    height: float

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Everything in which a factor's name may stand."""
        return (self.angle,)

    def point(self, values: Values) -> Vector:
        """Return the place at the factors' values."""
        angle_rad = _number(self.angle, values)
        return (self.radius * math.sin(angle_rad), self.radius * math.cos(angle_rad), self.height)


@dataclass(frozen=True)
class BodyLaw:
    """How a body follows from the factors; the fields are those of :class:`ident3d.scene.scene.Body`.

    Attributes:
        name: unique in the world.
        shape: name of its mesh, one of ``ident3d.scene.meshes.SHAPES``.
        scale: size in units of the mesh.
        paint: its colour.
        location: where its origin lies, before ``offset``.
        offset: added to ``location``.
        rotation: Euler angles about x, y and z, applied in this order.
        material: what it is made of.
    """

    name: str
    shape: str
    scale: float
    paint: Paint
    location: tuple[Parameter, Parameter, Parameter] = (0.0, 0.0, 0.0)
    offset: Vector = (0.0, 0.0, 0.0)
    rotation: tuple[Parameter, Parameter, Parameter] = (0.0, 0.0, 0.0)
    material: Material = field(default_factory=Material)

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f"body {self.name}: no shape {self.shape!r}; there are {', '.join(sorted(SHAPES))}")

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Everything in which a factor's name may stand."""
        return (*self.location, *self.rotation, *self.paint.parameters)

    def body(self, values: Values, hue_map: HueMap) -> Body:
        """Return the body at the factors' values."""
        x, y, z = _vector(self.location, values)
        return Body(
            name=self.name,
            shape=self.shape,
            scale=self.scale,
            location=(x + self.offset[0], y + self.offset[1], z + self.offset[2]),
            rotation=_vector(self.rotation, values),
            colour=self.paint.colour(values, hue_map),
            material=self.material,
        )


@dataclass(frozen=True)
class LightLaw:
    """How a light follows from the factors; the fields are those of :class:`ident3d.scene.scene.Light`.

    Attributes:
        name: unique in the world.
        kind: what kind of lamp.
        power: watts; W/m^2 for a sun.
        size: angular diameter in radians (sun), edge of the square (area), radius (spot).
        location: a point or a place on an orbit.
        target: a point, or the name of the body that the light is aimed at.
        paint: its colour.
        cone: opening angle of a spot in radians; None for the other kinds.
        blend: softness of the cone's edge; None for the other kinds.
        draws: how often the sampler takes this lamp's light, relative to the other lamps.
    """

    name: str
    kind: LightKind
    power: float
    size: float
    location: Orbit | tuple[Parameter, Parameter, Parameter]
    target: str | Vector
    paint: Paint = WHITE
    cone: float | None = None
    blend: float | None = None
    draws: int = 1

    def __post_init__(self) -> None:
        check_cone(self.name, self.kind, self.cone, self.blend)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Everything in which a factor's name may stand."""
        place = self.location.parameters if isinstance(self.location, Orbit) else self.location
        return (*place, *self.paint.parameters)

    def light(self, values: Values, hue_map: HueMap, bodies: Mapping[str, Vector]) -> Light:
        """Return the light at the factors' values.

        Args:
            values: the factors' values.
            hue_map: how a hue becomes a colour.
            bodies: where the bodies are, by their names.
        """
        return Light(
            name=self.name,
            kind=self.kind,
            power=self.power,
            size=self.size,
            location=self.location.point(values)
            if isinstance(self.location, Orbit)
            else _vector(self.location, values),
            target=bodies[self.target] if isinstance(self.target, str) else self.target,
            colour=self.paint.colour(values, hue_map),
            cone=self.cone,
            blend=self.blend,
            draws=self.draws,
        )


def _number(parameter: Parameter, values: Values) -> float:
    return values[parameter] if isinstance(parameter, str) else parameter


def _vector(parameters: tuple[Parameter, Parameter, Parameter], values: Values) -> Vector:
    x, y, z = parameters
    return (_number(x, values), _number(y, values), _number(z, values))


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
        camera: the camera, the same in every image.
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
        plain: dict[str, Any] = to_json(self)
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "World":
        """Return the world that :meth:`to_json` wrote; ValueError if the data describe none."""
        if "factors" not in data:
            raise ValueError(f"world.factors is missing: expected a list of factors, got {', '.join(map(str, data))}")
        return from_json(cls, data, "world")
