"""The law that makes a scene out of a row of latents; 3DIdent is the default instance.

A :class:`World` is a scene in which some numbers are names of factors. A variant with other ranges, factors,
objects, lights, saturations or materials is another instance and no other code: nothing here or below knows a factor by
its column.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d.factors import FACTORS, Factors
from ident3d.latents import check_latents, to_physical
from render.hue import HueMap
from render.plain import from_plain, to_plain
from render.scene import Body, Camera, Colour, Light, LightKind, Material, Scene, Vector, check_cone
from render.shapes import SHAPES

__all__ = ["BodyLaw", "LightLaw", "Orbit", "Paint", "Parameter", "World"]

Parameter = float | str
"""A constant, or the name of the factor whose physical value stands here."""

TEAPOT_SCALE = 1.5
TEAPOT_WIDTH = 4.4421
"""Largest dimension of the 3DIdent teapot at its scale, in Blender units; S in the scene's numbers."""


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

    def place(self, angle_rad: float) -> Vector:
        """Return the point at an angle."""
        return (self.radius * math.sin(angle_rad), self.radius * math.cos(angle_rad), self.height)


@dataclass(frozen=True)
class BodyLaw:
    """How a body follows from the factors; the fields are those of :class:`render.scene.Body`.

    Attributes:
        name: unique in the world.
        shape: name of its mesh, one of ``render.shapes.SHAPES``.
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


@dataclass(frozen=True)
class LightLaw:
    """How a light follows from the factors; the fields are those of :class:`render.scene.Light`.

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
    # Draws: the best of the ways to share 8 or 16 among the three, in dB to the reference pictures.
    return (
        LightLaw("zenith", LightKind.SUN, power=0.5, size=0.199337, location=(0.0, 0.0, 10.0), target=down, draws=3),
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
            draws=4,
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
        used = set(_factor_names((self.bodies, self.lights)))
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
        bodies = tuple(self._body(law, values) for law in self.bodies)
        places = {body.name: body.location for body in bodies}
        lights = tuple(self._light(law, values, places) for law in self.lights)
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

    def _body(self, law: BodyLaw, values: dict[str, float]) -> Body:
        location = _vector(law.location, values)
        return Body(
            name=law.name,
            shape=law.shape,
            scale=law.scale,
            location=(location[0] + law.offset[0], location[1] + law.offset[1], location[2] + law.offset[2]),
            rotation=_vector(law.rotation, values),
            colour=self._colour(law.paint, values),
            material=law.material,
        )

    def _light(self, law: LightLaw, values: dict[str, float], places: dict[str, Vector]) -> Light:
        if isinstance(law.location, Orbit):
            location = law.location.place(_number(law.location.angle, values))
        else:
            location = _vector(law.location, values)
        return Light(
            name=law.name,
            kind=law.kind,
            power=law.power,
            size=law.size,
            location=location,
            target=places[law.target] if isinstance(law.target, str) else law.target,
            colour=self._colour(law.paint, values),
            cone=law.cone,
            blend=law.blend,
            draws=law.draws,
        )

    def _colour(self, paint: Paint, values: dict[str, float]) -> Colour:
        return self.hue_map.rgb(_number(paint.hue, values), paint.saturation, paint.value)


def _number(parameter: Parameter, values: dict[str, float]) -> float:
    return values[parameter] if isinstance(parameter, str) else parameter


def _vector(parameters: tuple[Parameter, Parameter, Parameter], values: dict[str, float]) -> Vector:
    x, y, z = parameters
    return (_number(x, values), _number(y, values), _number(z, values))


# Fields in which a string is a factor's name; in all others it is a name of something else.
_PARAMETERS = frozenset({"hue", "angle", "location", "rotation"})


def _factor_names(things: Any, name: str = "") -> Iterator[str]:
    if is_dataclass(things):
        for item in fields(things):
            yield from _factor_names(getattr(things, item.name), item.name)
    elif isinstance(things, tuple):
        for item in things:
            yield from _factor_names(item, name)
    elif isinstance(things, str) and name in _PARAMETERS:
        yield things
