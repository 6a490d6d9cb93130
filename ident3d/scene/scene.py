"""One image's scene, as concrete numbers: where everything is, and in which colour.

A :class:`Scene` is what a renderer is given, and all that it needs beside the resolution, the quality and the seed of
its noise. It is described with the standard library alone. What makes scenes out of latents is
:class:`ident3d.scene.world.World`.

Units are Blender units, radians, watts (W/m^2 for a sun) and linear RGB unless a field says otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from ident3d.codec import from_json, to_json

__all__ = [
    "RGB",
    "AreaLamp",
    "Camera",
    "Lamp",
    "Light",
    "Material",
    "Scene",
    "SceneObject",
    "SpotLamp",
    "SunLamp",
    "Vector",
    "lamp_from_json",
    "lamp_to_json",
]

Vector = tuple[float, float, float]
"""x, y and z, in Blender units; of a rotation, angles about them in radians."""
RGB = tuple[float, float, float]
"""Red, green and blue, linear."""


@dataclass(frozen=True)
class Camera:
    """A perspective camera; the world's z axis is up in the image.

    Attributes:
        location: where it is.
        target: the point in the middle of the image.
        lens_mm: focal length in millimetres.
        sensor_mm: width of the sensor in millimetres, for the longer side of the image.
        clip_start: distance at which things start to be visible.
        clip_end: distance up to which things are visible.
    """

    location: Vector = (8.0, 0.0, 8.0)
    target: Vector = (0.0, 0.0, 0.0)
    lens_mm: float = 35.0
    sensor_mm: float = 50.0
    clip_start: float = 0.1
    clip_end: float = 100.0

    def __post_init__(self) -> None:
        _check_vectors(self, "location", "target")
        if self.location[:2] == self.target[:2]:
            raise ValueError("the camera looks along the z axis, so that no direction is up in the image")
        _check_positive(self, "lens_mm", "sensor_mm", "clip_start", "clip_end")
        if self.clip_start >= self.clip_end:
            raise ValueError(f"expected clip_start below clip_end, got {self.clip_start} and {self.clip_end}")


@dataclass(frozen=True)
class Material:
    """A soft plastic: diffuse under a velvet sheen under a glossy coat, mixed by Fresnel's law.

    The first layer mixes a diffuse and a velvet BSDF (Ashikhmin) in the object's colour by Fresnel(ior +
    velvet_ior_offset), the second mixes that and a glossy BSDF (Beckmann) by Fresnel(ior).

    Attributes:
        ior: index of refraction.
        velvet_ior_offset: added to ``ior`` for the inner layer.
        velvet_sigma: width of the velvet lobe, in (0, 1].
        roughness: roughness of the coat; Blender's own parameter is its square root.
        coat: grey level of the coat, linear.
    """

    ior: float = 1.2
    velvet_ior_offset: float = 0.2
    velvet_sigma: float = 0.6
    roughness: float = 0.35
    coat: float = 0.8

    def __post_init__(self) -> None:
        _check_positive(self, "ior", "velvet_sigma", "roughness")
        if not (math.isfinite(self.velvet_ior_offset) and 0 <= self.coat <= 1):
            raise ValueError(f"expected a finite velvet_ior_offset and a coat in [0, 1], got {self}")


@dataclass(frozen=True)
class SceneObject:
    """A mesh with a place, a size and a colour.

    Attributes:
        name: unique in the scene.
        shape: name of its mesh, one of ``ident3d.scene.meshes.SHAPES``.
        scale: size in units of the mesh.
        location: where its origin is.
        rotation: Euler angles about x, y and z, applied in this order.
        colour: linear RGB.
        material: what it is made of.
    """

    name: str
    shape: str
    scale: float
    location: Vector
    rotation: Vector
    colour: RGB
    material: Material

    def __post_init__(self) -> None:
        _check_vectors(self, "location", "rotation", "colour")
        _check_positive(self, "scale")


@dataclass(frozen=True)
class SunLamp:
    """A light source at infinity, seen as a disc.

    Attributes:
        diameter_rad: angular diameter of the disc, 0 or larger.
    """

    kind: ClassVar[str] = "sun"
    diameter_rad: float

    def __post_init__(self) -> None:
        _check_not_negative(self, "diameter_rad")


@dataclass(frozen=True)
class AreaLamp:
    """A square that shines to one side.

    Attributes:
        edge: length of its edge, 0 or larger.
    """

    kind: ClassVar[str] = "area"
    edge: float

    def __post_init__(self) -> None:
        _check_not_negative(self, "edge")


@dataclass(frozen=True)
class SpotLamp:
    """A sphere that shines into a cone.

    Attributes:
        radius: radius of the sphere, 0 or larger.
        cone_rad: opening angle of the cone, in (0, pi].
        blend: softness of the cone's edge, in [0, 1].
    """

    kind: ClassVar[str] = "spot"
    radius: float
    cone_rad: float
    blend: float

    def __post_init__(self) -> None:
        _check_not_negative(self, "radius")
        if not (0 < self.cone_rad <= math.pi and 0 <= self.blend <= 1):
            raise ValueError(
                f"a spot has a cone in (0, pi] and a blend in [0, 1], not {self.cone_rad} and {self.blend}"
            )


Lamp = SunLamp | AreaLamp | SpotLamp
"""What a light shines with."""


@dataclass(frozen=True)
class Light:
    """A lamp with a place, a power and a colour.

    Attributes:
        name: unique in the scene.
        lamp: what shines: its kind, and how large it is.
        power: watts; W/m^2 for a sun.
        location: where it is; without effect for a sun.
        target: the point that it is aimed at.
        colour: linear RGB.
        sampling_weight: how often a sampler takes this light, relative to the other lights; 1 or larger, and without
            effect on what the image converges to. See :class:`render.blender.quality.LightChoice`.
    """

    name: str
    lamp: Lamp
    power: float
    location: Vector
    target: Vector
    colour: RGB = (1.0, 1.0, 1.0)
    sampling_weight: int = 1

    def __post_init__(self) -> None:
        _check_vectors(self, "location", "target", "colour")
        _check_positive(self, "power", "sampling_weight")
        if self.location == self.target:
            raise ValueError(f"light {self.name} is aimed at its own location {self.location}")


@dataclass(frozen=True)
class Scene:
    """Everything that one image shows.

    Attributes:
        camera: the camera.
        objects: the objects.
        lights: the lights; the names of objects and lights are unique.
        gamut_checked: whether every colour must have its channels in [0, 1]; False for the ``published`` hue map,
            whose images are made with colours outside it.
    """

    camera: Camera
    objects: tuple[SceneObject, ...]
    lights: tuple[Light, ...]
    gamut_checked: bool = True

    def __post_init__(self) -> None:
        things: list[SceneObject | Light] = [*self.objects, *self.lights]
        names = [thing.name for thing in things]
        if len(set(names)) != len(names):
            raise ValueError(f"the names of objects and lights are unique, not {', '.join(names)}")
        for thing in things:
            if self.gamut_checked and not all(0 <= channel <= 1 for channel in thing.colour):
                raise ValueError(f"the colour of {thing.name} is outside [0, 1]: {thing.colour}")

    def to_json(self) -> dict[str, Any]:
        """Return the scene as plain data."""
        return {
            "camera": to_json(self.camera),
            "bodies": to_json(self.objects),
            "lights": [_light_to_json(light) for light in self.lights],
            "gamut_checked": self.gamut_checked,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Scene":
        """Return the scene that :meth:`to_json` wrote; ValueError if the data describe none."""
        layout = from_json(_SceneLayout, data, "scene")
        lights = tuple(light.light() for light in layout.lights)
        return cls(layout.camera, layout.bodies, lights, layout.gamut_checked)


def lamp_to_json(lamp: Lamp) -> dict[str, Any]:
    """Return a lamp as the fields of a light in JSON: kind, size, cone and blend, None where a lamp has none."""
    numbers = [getattr(lamp, field.name) for field in fields(lamp)]
    size, cone, blend = (*numbers, None, None)[:3]
    return {"kind": lamp.kind, "size": size, "cone": cone, "blend": blend}


def lamp_from_json(kind: str, size: float, cone: float | None, blend: float | None) -> Lamp:
    """Return the lamp that :func:`lamp_to_json` wrote.

    Raises:
        ValueError: if there is no lamp of the kind, it lacks a number or has one too many, or a number is out of range.
    """
    if kind not in _LAMPS:
        raise ValueError(f"unknown kind of light {kind!r}; choose from {', '.join(_LAMPS)}")
    lamp = _LAMPS[kind]
    numbers = [number for number in (size, cone, blend) if number is not None]
    if len(numbers) != len(fields(lamp)):
        raise ValueError(f"a spot has a cone and a blend and no other light has, not a {kind} with {cone} and {blend}")
    return lamp(*numbers)


_LAMPS: dict[str, type[Lamp]] = {lamp.kind: lamp for lamp in (SunLamp, AreaLamp, SpotLamp)}


@dataclass(frozen=True)
class _LightLayout:
    """A light as it is written in JSON."""

    name: str
    kind: str
    power: float
    size: float
    location: Vector
    target: Vector
    colour: RGB
    cone: float | None
    blend: float | None
    draws: int

    def light(self) -> Light:
        lamp = lamp_from_json(self.kind, self.size, self.cone, self.blend)
        return Light(self.name, lamp, self.power, self.location, self.target, self.colour, self.draws)


@dataclass(frozen=True)
class _SceneLayout:
    """A scene as it is written in JSON."""

    camera: Camera
    bodies: tuple[SceneObject, ...]
    lights: tuple[_LightLayout, ...]
    gamut_checked: bool


def _light_to_json(light: Light) -> dict[str, Any]:
    lamp = lamp_to_json(light.lamp)
    return {
        "name": light.name,
        "kind": lamp["kind"],
        "power": light.power,
        "size": lamp["size"],
        "location": to_json(light.location),
        "target": to_json(light.target),
        "colour": to_json(light.colour),
        "cone": lamp["cone"],
        "blend": lamp["blend"],
        "draws": light.sampling_weight,
    }


def _check_vectors(thing: Any, *names: str) -> None:
    for name in names:
        value = getattr(thing, name)
        if len(value) != 3 or not all(map(math.isfinite, value)):
            raise ValueError(f"{type(thing).__name__}.{name}: expected three finite numbers, got {value}")


def _check_positive(thing: Any, *names: str) -> None:
    for name in names:
        value = getattr(thing, name)
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{type(thing).__name__}.{name}: expected a positive number, got {value}")


def _check_not_negative(lamp: Any, name: str) -> None:
    value = getattr(lamp, name)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{type(lamp).__name__}.{name}: expected a size of 0 or larger, got {value}")
