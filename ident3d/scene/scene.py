"""One image's scene, as concrete numbers: where everything is, and in which colour.

A :class:`Scene` is what a worker process is sent. It holds all that Blender needs beside the quality, the
resolution and the sampling seed, and it is described without Blender, with the standard library alone. The law
that makes scenes out of latents is :mod:`ident3d.scene.world`.

Units are Blender units, radians, watts (W/m^2 for a sun) and linear RGB unless a field says otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ident3d.codec import from_json, to_json

__all__ = ["Body", "Camera", "Colour", "Light", "LightKind", "Material", "Scene", "Vector"]

Vector = tuple[float, float, float]
"""x, y and z, in Blender units; of a rotation, angles about them in radians."""
Colour = tuple[float, float, float]
"""Red, green and blue, linear."""


@dataclass(frozen=True)
class Camera:
    """A perspective camera; the world's z axis is up in the image.

    Attributes:
        location: where it stands.
        target: the point in the middle of the image.
        lens_mm: focal length in millimetres.
        sensor_mm: width of the sensor in millimetres, for the longer side of the image.
        clip_start: distance from which on things are seen.
        clip_end: distance up to which things are seen.
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


@dataclass(frozen=True)
class Material:
    """A soft plastic: diffuse under a velvet sheen under a glossy coat, mixed by Fresnel's law.

    The first layer mixes a diffuse and a velvet BSDF (Ashikhmin) in the body's colour by Fresnel(ior +
    velvet_ior_offset), the second mixes that and a glossy BSDF (Beckmann) by Fresnel(ior).

    Attributes:
        ior: index of refraction.
        velvet_ior_offset: added to ``ior`` for the inner layer.
        velvet_sigma: width of the velvet lobe, in [0, 1].
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
class Body:
    """A mesh with a place, a size and a colour.

    Attributes:
        name: unique in the scene.
        shape: name of its mesh, one of ``ident3d.scene.meshes.SHAPES``.
        scale: size in units of the mesh.
        location: where its origin lies.
        rotation: Euler angles about x, y and z, applied in this order.
        colour: linear RGB.
        material: what it is made of.
    """

    name: str
    shape: str
    scale: float
    location: Vector
    rotation: Vector
    colour: Colour
    material: Material

    def __post_init__(self) -> None:
        _check_vectors(self, "location", "rotation", "colour")
        _check_positive(self, "scale")


class LightKind(StrEnum):
    """What kind of lamp a light is."""

    SUN = "sun"
    AREA = "area"
    SPOT = "spot"


@dataclass(frozen=True)
class Light:
    """A lamp.

    Attributes:
        name: unique in the scene.
        kind: what kind of lamp.
        power: watts; W/m^2 for a sun.
        size: angular diameter in radians (sun), edge of the square (area), radius of the sphere (spot).
        location: where it is; without effect for a sun.
        target: the point that it is aimed at.
        colour: linear RGB.
        cone: opening angle of a spot in radians; None for the other kinds.
        blend: softness of the cone's edge in [0, 1]; None for the other kinds.
        draws: how often the sampler takes this lamp's light, relative to the other lamps; without effect on what the
            image converges to. See :class:`render.blender.quality.LightChoice`.
    """

    name: str
    kind: LightKind
    power: float
    size: float
    location: Vector
    target: Vector
    colour: Colour = (1.0, 1.0, 1.0)
    cone: float | None = None
    blend: float | None = None
    draws: int = 1

    def __post_init__(self) -> None:
        _check_vectors(self, "location", "target", "colour")
        _check_positive(self, "power", "draws")
        if not (math.isfinite(self.size) and self.size >= 0):
            raise ValueError(f"light {self.name}: expected a size of 0 or larger, got {self.size}")
        if self.location == self.target:
            raise ValueError(f"light {self.name} is aimed at its own location {self.location}")
        check_cone(self.name, self.kind, self.cone, self.blend)


@dataclass(frozen=True)
class Scene:
    """Everything that one image shows.

    Attributes:
        camera: the camera.
        bodies: the meshes, with unique names.
        lights: the lamps, with unique names.
        gamut_checked: whether every colour must have its channels in [0, 1]; False for the ``published`` hue map,
            whose images are made with colours outside it.
    """

    camera: Camera
    bodies: tuple[Body, ...]
    lights: tuple[Light, ...]
    gamut_checked: bool = True

    def __post_init__(self) -> None:
        things: list[Body | Light] = [*self.bodies, *self.lights]
        names = [thing.name for thing in things]
        if len(set(names)) != len(names):
            raise ValueError(f"the names of bodies and lights are unique, not {', '.join(names)}")
        for thing in things:
            if self.gamut_checked and not all(0 <= channel <= 1 for channel in thing.colour):
                raise ValueError(f"the colour of {thing.name} is outside [0, 1]: {thing.colour}")

    def to_json(self) -> dict[str, Any]:
        """Return the scene as plain data."""
        plain: dict[str, Any] = to_json(self)
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Scene":
        """Return the scene that :meth:`to_json` wrote; ValueError if the data describe none."""
        return from_json(cls, data, "scene")


def check_cone(name: str, kind: LightKind, cone: float | None, blend: float | None) -> None:
    """Raise ValueError unless a spot, and only a spot, has a cone and a blend in their ranges."""
    if kind is not LightKind.SPOT:
        if cone is not None or blend is not None:
            raise ValueError(f"light {name}: only a spot has a cone and a blend, not a {kind}")
    elif cone is None or blend is None or not (0 < cone <= math.pi and 0 <= blend <= 1):
        raise ValueError(f"light {name}: a spot has a cone in (0, pi] and a blend in [0, 1], not {cone} and {blend}")


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
