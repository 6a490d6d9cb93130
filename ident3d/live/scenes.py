"""The scenes of many latents at once, as the kernels take them: a world, evaluated column by column.

This is the one module of the live renderer that reads :class:`ident3d.scene.world.World`. The numbers of all scenes are
in the frame of the object: its rotation, location and scale are taken out of camera, ground and lamps.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ident3d.scene.scene import AreaLamp, SpotLamp, SunLamp, Vector
from ident3d.scene.templates import (
    Bindable,
    BindableVector,
    HSVColour,
    HueMap,
    LightTemplate,
    ObjectTemplate,
    Orbit,
)
from ident3d.scene.world import World

__all__ = ["SceneArrays", "Scenes", "UnsupportedWorldError"]

_KINDS = {SunLamp: 0, AreaLamp: 1, SpotLamp: 2}
_MOST_LIGHTS = 15  # the kernels have two bits for each in an int32
_LEAST_GROUND = 4  # edges of the ground in units of the camera's reach, from which on its end is never seen

FactorColumns = dict[str, Tensor]
"""(N,) float64 physical values of every factor, by its name."""


class UnsupportedWorldError(ValueError):
    """A world that the live renderer cannot draw."""


@dataclass(frozen=True)
class SceneArrays:
    """N scenes with L lights each.

    Attributes:
        images: (N, 8, 3) float32; the rows are those of :mod:`ident3d.live.kernels`.
        lights: (N, L, 6, 3) float32, likewise.
    """

    images: Tensor
    lights: Tensor


class Scenes:
    """What makes scenes of latents.

    Args:
        world: the world.

    Attributes:
        world: the world.
        object: the template of its object.
        ground: the template of its ground.
        kinds: the kinds of its lamps, by the numbers of :mod:`ident3d.live.kernels`.

    Raises:
        UnsupportedWorldError: if the live renderer cannot draw this world; the message says why.
    """

    def __init__(self, world: World) -> None:
        grounds = [template for template in world.objects if template.shape == "plane"]
        objects = [template for template in world.objects if template.shape != "plane"]
        if len(objects) != 1 or len(grounds) != 1:
            raise UnsupportedWorldError(
                "the live renderer draws one object on one ground, which has the shape 'plane'; this world has "
                f"{len(objects)} objects and {len(grounds)} grounds; python -m render draws any number of them"
            )
        (self.object,), (self.ground,) = objects, grounds
        least = _LEAST_GROUND * world.camera.clip_end
        if isinstance(self.ground.scale, str) or self.ground.scale < least:
            raise UnsupportedWorldError(
                f"the live renderer draws a ground whose end is never seen; the scale of {self.ground.name} is "
                f"{self.ground.scale}, and a constant of {least:g} or larger would do"
            )
        if not 1 <= len(world.lights) <= _MOST_LIGHTS:
            raise UnsupportedWorldError(
                f"the live renderer draws 1 to {_MOST_LIGHTS} lights; this world has {len(world.lights)}"
            )
        self.world = world
        self.kinds = [_KINDS[type(light.lamp)] for light in world.lights]

    def arrays(self, latents: Tensor) -> SceneArrays:
        """Return the scenes of (N, d) raw latents in [-1, 1], on their device."""
        world = _Columns(self.world, latents)
        frame = _Frame(world.location(self.object), world.rotation(self.object), world.number(self.object.scale))
        camera = self.world.camera
        forward, right, up = (frame.direction(world.constant(axis)) for axis in _camera_axes(self.world))
        normal = world.rotation(self.ground)[:, :, 2]
        height = _dot(normal, world.location(self.ground) - frame.origin)
        depths = (world.number(camera.clip_end), world.number(camera.clip_start))
        images = [
            frame.place(world.constant(camera.location)),
            forward,
            right,
            up,
            frame.direction(normal),
            torch.stack([height, *depths], dim=1) / frame.scale[:, None],
            # Cycles takes a reflection below 0 for none.
            *(world.rgb(template.colour).clamp(min=0) for template in (self.object, self.ground)),
        ]
        lights = [_light(world, frame, light) for light in self.world.lights]
        return SceneArrays(
            torch.stack(images, dim=1).float().contiguous(), torch.stack(lights, dim=1).float().contiguous()
        )


@dataclass(frozen=True)
class _Frame:
    """The frame of the object in each scene.

    Attributes:
        origin: (N, 3) places in the world.
        turn: (N, 3, 3) rotations from the object to the world.
        scale: (N,) sizes.
    """

    origin: Tensor
    turn: Tensor
    scale: Tensor

    def place(self, place: Tensor) -> Tensor:
        """Return (N, 3) places of the world in the frame of the object."""
        return self.direction(place - self.origin) / self.scale[:, None]

    def direction(self, direction: Tensor) -> Tensor:
        """Return (N, 3) directions of the world in the frame of the object."""
        x, y, z = direction.unbind(dim=1)
        # The transpose turns back. Written out, since a product of matrices may depend on how many there are.
        return x[:, None] * self.turn[:, 0] + y[:, None] * self.turn[:, 1] + z[:, None] * self.turn[:, 2]


class _Columns:
    """The numbers of a world's templates for N rows of latents; the columns' way through ident3d.scene.templates."""

    def __init__(self, world: World, latents: Tensor) -> None:
        raw = latents.double()
        self._world = world
        self._values = {
            factor.name: factor.low + (raw[:, column] + 1) * 0.5 * (factor.high - factor.low)
            for column, factor in enumerate(world.factors)
        }
        self._zeros = torch.zeros_like(raw[:, 0])

    def number(self, bindable: Bindable) -> Tensor:
        """Return (N,) values."""
        return self._values[bindable] if isinstance(bindable, str) else self._zeros + bindable

    def vector(self, bindables: BindableVector) -> Tensor:
        """Return (N, 3) vectors."""
        return torch.stack([self.number(bindable) for bindable in bindables], dim=1)

    def constant(self, vector: Vector) -> Tensor:
        """Return N times the same vector, (N, 3)."""
        return self.vector(vector)

    def location(self, template: ObjectTemplate) -> Tensor:
        """Return (N, 3) places of an object."""
        return self.vector(template.location) + self.constant(template.offset)

    def rotation(self, template: ObjectTemplate) -> Tensor:
        """Return (N, 3, 3) rotations about x, y and z, applied in this order."""
        angles = self.vector(template.rotation)
        (sx, sy, sz), (cx, cy, cz) = angles.sin().unbind(dim=1), angles.cos().unbind(dim=1)
        rows = (
            (cy * cz, sx * sy * cz - cx * sz, cx * sy * cz + sx * sz),
            (cy * sz, sx * sy * sz + cx * cz, cx * sy * sz - sx * cz),
            (-sy, sx * cy, cx * cy),
        )
        return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)

    def point(self, location: Orbit | BindableVector) -> Tensor:
        """Return (N, 3) places of a light."""
        if not isinstance(location, Orbit):
            return self.vector(location)
        angle, radius, height = map(self.number, (location.angle, location.radius, location.height))
        return torch.stack([radius * angle.sin(), radius * angle.cos(), height], dim=1)

    def target(self, target: str | Vector) -> Tensor:
        """Return (N, 3) places that a light is aimed at."""
        if not isinstance(target, str):
            return self.constant(target)
        return self.location(next(template for template in self._world.objects if template.name == target))

    def rgb(self, colour: HSVColour) -> Tensor:
        """Return (N, 3) colours; see :meth:`ident3d.scene.templates.HueMap.rgb`."""
        hue, saturation, value = map(self.number, (colour.hue, colour.saturation, colour.value))
        turns = hue / (2 * math.pi)
        if self._world.hue_map is HueMap.WRAPPED:
            turns = turns.remainder(1.0)
        sector = (turns * 6).trunc()
        fraction = turns * 6 - sector
        rising, falling = value * (1 - saturation * (1 - fraction)), value * (1 - saturation * fraction)
        levels = torch.stack([value, rising, falling, value * (1 - saturation)], dim=1)
        return levels.gather(1, torch.tensor(_SECTORS, device=hue.device)[sector.long().remainder(6)])


# Red, green and blue in each sixth of the hue circle: 0 the value, 1 rising, 2 falling, 3 low.
_SECTORS = ((0, 1, 3), (2, 0, 3), (3, 0, 1), (3, 2, 0), (1, 3, 0), (0, 3, 2))


def _camera_axes(world: World) -> tuple[Vector, Vector, Vector]:
    """Return the camera's axis, of length 1, and half of the image's width and height at a depth of 1."""
    camera = world.camera
    x, y, z = (end - start for start, end in zip(camera.location, camera.target, strict=True))
    length, level = math.hypot(x, y, z), math.hypot(x, y)
    half = camera.sensor_mm / 2 / camera.lens_mm
    right = (half * y / level, -half * x / level, 0.0)
    up = (-half * x * z / (level * length), -half * y * z / (level * length), half * level / length)
    return (x / length, y / length, z / length), right, up


def _light(world: _Columns, frame: _Frame, light: LightTemplate) -> Tensor:
    """Return (N, 6, 3): the rows that the kernels know of a light."""
    location = world.point(light.location)
    axis = _unit(world.target(light.target) - location)
    side, other = _sides(axis)
    lamp, scale = light.lamp, frame.scale
    strength, none = world.number(light.power), torch.zeros_like(scale)
    cosine = narrowness = none
    if isinstance(lamp, SunLamp):
        size = none + math.tan(lamp.diameter_rad / 2)
        strength = strength * 2 / (1 + math.cos(lamp.diameter_rad / 2))
    elif isinstance(lamp, AreaLamp):
        size = lamp.edge / scale
        strength = strength / (math.pi * scale.square())  # distances are in units of the mesh
    else:
        size = lamp.radius / scale
        strength = strength / (4 * math.pi * scale.square())
        cosine = none + math.cos(lamp.cone_rad / 2)
        narrowness = none + 1 / max(lamp.blend * (1 - math.cos(lamp.cone_rad / 2)), 1e-6)
    if not isinstance(lamp, SpotLamp):  # a spot's disc faces what it shines on, so that its sides are set there
        side, other = size[:, None] * side, size[:, None] * other
    rows = [
        frame.place(location),
        *map(frame.direction, (axis, side, other)),
        strength[:, None] * world.rgb(light.colour),
        torch.stack([size, cosine, narrowness], dim=1),
    ]
    return torch.stack(rows, dim=1)


def _sides(axis: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sides of squares that face along (N, 3) axes, upright as a camera's image is."""
    x, y, z = axis.unbind(dim=1)
    level = (x.square() + y.square()).sqrt()
    is_vertical = level < 1e-9
    level = level.clamp(min=1e-9)
    side = torch.stack([torch.where(is_vertical, 1.0, y / level), torch.where(is_vertical, 0.0, -x / level), 0 * z], 1)
    return side, torch.linalg.cross(side, axis)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    products = a * b
    return products[:, 0] + products[:, 1] + products[:, 2]


def _unit(vectors: Tensor) -> Tensor:
    return vectors / _dot(vectors, vectors).sqrt()[:, None]
