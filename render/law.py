"""How a body or a light of a scene follows from the factors' values.

The fields are those of :mod:`render.scene`, but that some of them may hold a factor's name where a number stands there.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from render.hue import HueMap
from render.scene import Body, Colour, Light, LightKind, Material, Vector, check_cone
from render.shapes import SHAPES

__all__ = ["BodyLaw", "LightLaw", "Orbit", "Paint", "Parameter", "Values"]

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
