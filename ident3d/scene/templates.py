"""Templates of objects and lights, in which numbers may be bound to factors.

A template with the values of the factors gives an object or a light of one scene. Numbers that may be bound are
typed :data:`Bindable`; each template lists them as its ``bindings``, with the range that they have to be in, so that
a world can check that every value of a factor is one that its template takes.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ident3d.scene.meshes import check_shape
from ident3d.scene.scene import RGB, Lamp, Light, Material, SceneObject, Vector

__all__ = [
    "WHITE",
    "Bindable",
    "BindableVector",
    "Binding",
    "FactorValues",
    "HSVColour",
    "HueMap",
    "LightTemplate",
    "ObjectTemplate",
    "Orbit",
    "value_of",
]

Bindable = float | str
"""A number, or the name of the factor that it is bound to: the factor's physical value is used."""
BindableVector = tuple[Bindable, Bindable, Bindable]
"""Three numbers along x, y and z, each of which may be bound to a factor."""
FactorValues = Mapping[str, float]
"""The physical value of every factor, by its name."""


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

    def rgb(self, angle_rad: float, saturation: float, value: float = 1.0) -> RGB:
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


@dataclass(frozen=True)
class Binding:
    """A number of a template, and the values that it may have.

    Attributes:
        what: how messages call it.
        value: the number, or the factor that it is bound to.
        low: its smallest value.
        high: its largest value.
        is_positive: whether it has to be larger than 0.
    """

    what: str
    value: Bindable
    low: float = -math.inf
    high: float = math.inf
    is_positive: bool = False

    @property
    def factor(self) -> str | None:
        """The name of the factor that the number is bound to; None for a constant."""
        return self.value if isinstance(self.value, str) else None

    def accepts(self, value: float) -> bool:
        """Return whether the number may have a value."""
        return math.isfinite(value) and self.low <= value <= self.high and (value > 0 or not self.is_positive)

    @property
    def expected(self) -> str:
        """What the number may be, for messages."""
        if self.is_positive:
            return "a positive number"
        return "a finite number" if math.isinf(self.low) else f"a number in [{self.low:g}, {self.high:g}]"


def value_of(bindable: Bindable, values: FactorValues) -> float:
    """Return a number at the factors' values."""
    return values[bindable] if isinstance(bindable, str) else bindable


def _check_constants(where: str, bindings: tuple[Binding, ...]) -> None:
    """Raise ValueError that names every constant that is out of its range."""
    faults = [
        f"{binding.what} is {binding.expected}, not {binding.value}"
        for binding in bindings
        if not isinstance(binding.value, str) and not binding.accepts(binding.value)
    ]
    if faults:
        raise ValueError(f"{where}{', '.join(faults)}")


@dataclass(frozen=True)
class HSVColour:
    """A colour by hue, saturation and value.

    Attributes:
        hue: angle on the hue circle in radians.
        saturation: HSV saturation in [0, 1].
        value: HSV value in [0, 1].
    """

    hue: Bindable
    saturation: Bindable
    value: Bindable = 1.0

    def __post_init__(self) -> None:
        _check_constants("", self.bindings)

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The numbers that may be bound."""
        return (
            Binding("hue", self.hue),
            Binding("saturation", self.saturation, 0.0, 1.0),
            Binding("value", self.value, 0.0, 1.0),
        )

    def rgb(self, values: FactorValues, hue_map: HueMap) -> RGB:
        """Return the colour at the factors' values."""
        hue, saturation, value = (value_of(bindable, values) for bindable in (self.hue, self.saturation, self.value))
        return hue_map.rgb(hue, saturation, value)


WHITE = HSVColour(hue=0.0, saturation=0.0)


@dataclass(frozen=True)
class Orbit:
    """A place on a horizontal circle around the z axis.

    Attributes:
        angle: from the y axis towards the x axis, in radians.
        radius: radius of the circle.
        height: z of the circle.
    """

    angle: Bindable
    radius: Bindable
    height: Bindable

    def __post_init__(self) -> None:
        _check_constants("", self.bindings)

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The numbers that may be bound."""
        return (Binding("angle", self.angle), Binding("radius", self.radius), Binding("height", self.height))

    def point(self, values: FactorValues) -> Vector:
        """Return the place at the factors' values."""
        angle, radius, height = (value_of(bindable, values) for bindable in (self.angle, self.radius, self.height))
        return (radius * math.sin(angle), radius * math.cos(angle), height)


@dataclass(frozen=True)
class ObjectTemplate:
    """How an object follows from the factors; see :class:`ident3d.scene.scene.SceneObject`.

    Attributes:
        name: unique in the world.
        shape: name of its mesh, one of ``ident3d.scene.meshes.SHAPES``.
        scale: size in units of the mesh.
        colour: its colour.
        location: where its origin is, before ``offset``.
        offset: added to ``location``.
        rotation: Euler angles about x, y and z, applied in this order.
        material: what it is made of.
    """

    name: str
    shape: str
    scale: Bindable
    colour: HSVColour
    location: BindableVector = (0.0, 0.0, 0.0)
    offset: Vector = (0.0, 0.0, 0.0)
    rotation: BindableVector = (0.0, 0.0, 0.0)
    material: Material = field(default_factory=Material)

    def __post_init__(self) -> None:
        check_shape(self.shape)
        offset = tuple(Binding(f"offset.{axis}", value) for axis, value in zip("xyz", self.offset, strict=True))
        _check_constants(f"object {self.name}: ", (*self.bindings, *offset))

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The numbers that may be bound."""
        return (
            Binding("scale", self.scale, is_positive=True),
            *_of_vector("location", self.location),
            *_of_vector("rotation", self.rotation),
            *_under("colour", self.colour.bindings),
        )

    def resolve(self, values: FactorValues, hue_map: HueMap) -> SceneObject:
        """Return the object at the factors' values."""
        x, y, z = _vector(self.location, values)
        return SceneObject(
            name=self.name,
            shape=self.shape,
            scale=value_of(self.scale, values),
            location=(x + self.offset[0], y + self.offset[1], z + self.offset[2]),
            rotation=_vector(self.rotation, values),
            colour=self.colour.rgb(values, hue_map),
            material=self.material,
        )


@dataclass(frozen=True)
class LightTemplate:
    """How a light follows from the factors; see :class:`ident3d.scene.scene.Light`.

    Attributes:
        name: unique in the world.
        lamp: what shines: its kind, and how large it is.
        power: watts; W/m^2 for a sun.
        location: a point, or a place on an orbit.
        target: a point, or the name of the object that the light is aimed at.
        colour: its colour.
        sampling_weight: how often a sampler takes this light, relative to the other lights.
    """

    name: str
    lamp: Lamp
    power: Bindable
    location: Orbit | BindableVector
    target: str | Vector
    colour: HSVColour = WHITE
    sampling_weight: int = 1

    def __post_init__(self) -> None:
        if self.sampling_weight < 1:
            raise ValueError(f"light {self.name}: a sampling weight is 1 or larger, not {self.sampling_weight}")
        target = () if isinstance(self.target, str) else _of_vector("target", self.target)
        _check_constants(f"light {self.name}: ", (*self.bindings, *target))

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """The numbers that may be bound."""
        location = (
            _under("location", self.location.bindings)
            if isinstance(self.location, Orbit)
            else _of_vector("location", self.location)
        )
        return (
            Binding("power", self.power, is_positive=True),
            *location,
            *_under("colour", self.colour.bindings),
        )

    def resolve(self, values: FactorValues, hue_map: HueMap, objects: Mapping[str, Vector]) -> Light:
        """Return the light at the factors' values.

        Args:
            values: the factors' values.
            hue_map: how a hue becomes a colour.
            objects: where the objects are, by their names.
        """
        return Light(
            name=self.name,
            lamp=self.lamp,
            power=value_of(self.power, values),
            location=self.location.point(values)
            if isinstance(self.location, Orbit)
            else _vector(self.location, values),
            target=objects[self.target] if isinstance(self.target, str) else self.target,
            colour=self.colour.rgb(values, hue_map),
            sampling_weight=self.sampling_weight,
        )


def _vector(bindables: BindableVector, values: FactorValues) -> Vector:
    x, y, z = bindables
    return (value_of(x, values), value_of(y, values), value_of(z, values))


def _of_vector(what: str, bindables: BindableVector) -> Iterator[Binding]:
    return (Binding(f"{what}.{axis}", value) for axis, value in zip("xyz", bindables, strict=True))


def _under(what: str, bindings: tuple[Binding, ...]) -> Iterator[Binding]:
    return (Binding(f"{what}.{b.what}", b.value, b.low, b.high, b.is_positive) for b in bindings)
