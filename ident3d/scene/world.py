"""The world that makes a scene out of a row of latents; that of 3DIdent is the default.

A :class:`World` is a scene in which some numbers are bound to factors. A variant with other ranges, factors, objects,
lights, colours or materials is another instance, or another file of JSON, and no other code: nothing here or in a
renderer knows a factor by its column.

In JSON, as in manifests and in the files that ``python -m render --world`` takes, an object is one of the
"bodies", its colour its "paint", and a light's sampling weight its "draws".
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ident3d.codec import parse, read_file, to_json
from ident3d.factors import FACTORS, Factor, Factors
from ident3d.latents import check_latents, to_physical
from ident3d.scene.scene import (
    AreaLamp,
    Camera,
    Material,
    Scene,
    SpotLamp,
    SunLamp,
    Vector,
    lamp_from_json,
    lamp_to_json,
)
from ident3d.scene.templates import (
    WHITE,
    Bindable,
    BindableVector,
    Binding,
    HSVColour,
    HueMap,
    LightTemplate,
    ObjectTemplate,
    Orbit,
)

__all__ = ["World"]

T = TypeVar("T")

_TEAPOT_SCALE = 1.5
_TEAPOT_WIDTH = 4.4421  # the largest dimension of the teapot at its scale, in Blender units


def _teapot() -> ObjectTemplate:
    return ObjectTemplate(
        name="object",
        shape="utah_teapot",
        scale=_TEAPOT_SCALE,
        colour=HSVColour("object_hue", saturation=1.0),
        location=("position_x", "position_y", "position_z"),
        offset=(0.0, 0.0, _TEAPOT_WIDTH / 2),
        rotation=("rotation_x", "rotation_y", "rotation_z"),
    )


def _ground() -> ObjectTemplate:
    return ObjectTemplate(
        name="ground",
        shape="plane",
        scale=1500.0,
        colour=HSVColour("ground_hue", saturation=0.6),
        location=(0.0, 0.0, -_TEAPOT_WIDTH),
    )


def _lights() -> tuple[LightTemplate, ...]:
    origin = (0.0, 0.0, 0.0)
    return (
        LightTemplate("zenith", SunLamp(0.199337), power=0.5, location=(0.0, 0.0, 10.0), target=origin),
        LightTemplate("area", AreaLamp(edge=1.0), power=39.2699, location=(0.0, 0.0, 7.0), target=origin),
        LightTemplate(
            "spotlight",
            SpotLamp(radius=0.5, cone_rad=math.radians(35.0), blend=0.1),
            power=3000.0,
            location=Orbit("spotlight_angle", radius=4.0, height=6.0 + _TEAPOT_WIDTH),
            target="object",
            colour=HSVColour("spotlight_hue", saturation=0.8),
            sampling_weight=2,
        ),
    )


@dataclass(frozen=True)
class World:
    """The factors of a dataset and the scenes that they make; by default those of 3DIdent.

    Every factor has to be bound somewhere in the scene, and every name in the scene has to be a factor's: a latent
    without effect, or an effect without a latent, is a mistake in the description. A number that is bound to a factor
    has to take all of the factor's range: a saturation is in [0, 1], a scale is positive.

    Attributes:
        factors: one for each column of the latents.
        hue_map: how a hue becomes a colour.
        camera: the camera, the same in every image.
        objects: the objects.
        lights: the lights; the names of objects and lights are unique.

    Raises:
        ValueError: all that is wrong, a line for each fault.
    """

    factors: Factors = FACTORS
    hue_map: HueMap = HueMap.WRAPPED
    camera: Camera = field(default_factory=Camera)
    objects: tuple[ObjectTemplate, ...] = field(default_factory=lambda: (_teapot(), _ground()))
    lights: tuple[LightTemplate, ...] = field(default_factory=_lights)

    def __post_init__(self) -> None:
        ranges = {factor.name: factor for factor in self.factors}
        targets = [template.name for template in self.objects]
        faults = [
            *_faults_of_names(self.objects, self.lights, targets),
            *_faults_of_bindings(self.objects, self.lights, self.factors.names, ranges),
            *_idle_factors(self.objects, self.lights, self.factors.names),
        ]
        if faults:
            raise ValueError("\n".join(faults))

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
        objects = tuple(template.resolve(values, self.hue_map) for template in self.objects)
        places = {thing.name: thing.location for thing in objects}
        lights = tuple(template.resolve(values, self.hue_map, places) for template in self.lights)
        return Scene(self.camera, objects, lights, gamut_checked=self.hue_map.stays_in_gamut)

    def to_json(self) -> dict[str, Any]:
        """Return the world as plain data, for a manifest or a file of its own."""
        return {
            "factors": self.factors.to_json(),
            "hue_map": self.hue_map.value,
            "camera": to_json(self.camera),
            "bodies": [to_json(_ObjectTemplateLayout.of(template)) for template in self.objects],
            "lights": [to_json(_LightTemplateLayout.of(template)) for template in self.lights],
        }

    @classmethod
    def from_json(cls, data: Any, where: str = "world") -> "World":
        """Return the world that :meth:`to_json` wrote.

        Args:
            data: plain data, as JSON reads it.
            where: how messages call it.

        Raises:
            ValueError: all that is wrong with the data, a line for each fault: fields that are missing or unknown,
                values of another type or out of range, names that occur twice, lights aimed at nothing, and factors
                that are not there, are bound nowhere, or have a range that their place does not take.
        """
        layout, faults = parse(_WorldLayout, data, where)
        if layout is None:
            raise ValueError("\n".join([*faults, *(f"{where}: {fault}" for fault in _faults_between_parts(data))]))
        try:
            return cls(
                layout.factors,
                layout.hue_map,
                layout.camera,
                tuple(part.template() for part in layout.bodies),
                tuple(part.template() for part in layout.lights),
            )
        except ValueError as error:
            raise ValueError("\n".join(f"{where}: {line}" for line in str(error).splitlines())) from error

    @classmethod
    def read(cls, path: Path) -> "World":
        """Read a world from a file of JSON.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it is not JSON, or does not describe a world; a line for each fault.
        """
        data = read_file(path, "python -m render world writes one to start from")
        return cls.from_json(data, str(path))


@dataclass(frozen=True)
class _ObjectTemplateLayout:
    """A template of an object as it is written in JSON."""

    name: str
    shape: str
    scale: Bindable
    paint: HSVColour
    location: BindableVector = (0.0, 0.0, 0.0)
    offset: Vector = (0.0, 0.0, 0.0)
    rotation: BindableVector = (0.0, 0.0, 0.0)
    material: Material = field(default_factory=Material)

    def __post_init__(self) -> None:
        self.template()  # says what is wrong while the other parts are still being read

    def template(self) -> ObjectTemplate:
        return ObjectTemplate(
            self.name, self.shape, self.scale, self.paint, self.location, self.offset, self.rotation, self.material
        )

    @classmethod
    def of(cls, template: ObjectTemplate) -> "_ObjectTemplateLayout":
        return cls(
            template.name,
            template.shape,
            template.scale,
            template.colour,
            template.location,
            template.offset,
            template.rotation,
            template.material,
        )


@dataclass(frozen=True)
class _LightTemplateLayout:
    """A template of a light as it is written in JSON."""

    name: str
    kind: str
    power: Bindable
    size: float
    location: Orbit | BindableVector
    target: str | Vector
    paint: HSVColour = WHITE
    cone: float | None = None
    blend: float | None = None
    draws: int = 1

    def __post_init__(self) -> None:
        self.template()

    def template(self) -> LightTemplate:
        lamp = lamp_from_json(self.kind, self.size, self.cone, self.blend)
        return LightTemplate(self.name, lamp, self.power, self.location, self.target, self.paint, self.draws)

    @classmethod
    def of(cls, template: LightTemplate) -> "_LightTemplateLayout":
        return cls(
            name=template.name,
            power=template.power,
            location=template.location,
            target=template.target,
            paint=template.colour,
            draws=template.sampling_weight,
            **lamp_to_json(template.lamp),
        )


@dataclass(frozen=True)
class _WorldLayout:
    """A world as it is written in JSON."""

    factors: Factors
    hue_map: HueMap
    camera: Camera
    bodies: tuple[_ObjectTemplateLayout, ...]
    lights: tuple[_LightTemplateLayout, ...]


def _faults_of_names(
    objects: Sequence[ObjectTemplate], lights: Sequence[LightTemplate], targets: Sequence[str]
) -> Iterator[str]:
    names = Counter([*(template.name for template in objects), *(template.name for template in lights)])
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        yield f"the names of objects and lights are unique, and these are not: {', '.join(twice)}"
    for light in lights:
        if isinstance(light.target, str) and light.target not in targets:
            yield f"light {light.name} is aimed at {light.target!r}; the objects are {', '.join(targets)}"


def _bindings(objects: Sequence[ObjectTemplate], lights: Sequence[LightTemplate]) -> Iterator[tuple[str, Binding, str]]:
    """Yield every number that is bound: what it belongs to, the number, and the factor."""
    owned = [(f"object {template.name}", template.bindings) for template in objects]
    owned += [(f"light {template.name}", template.bindings) for template in lights]
    for owner, bindings in owned:
        yield from ((owner, binding, binding.factor) for binding in bindings if binding.factor is not None)


def _faults_of_bindings(
    objects: Sequence[ObjectTemplate],
    lights: Sequence[LightTemplate],
    names: Collection[str],
    ranges: Mapping[str, Factor],
) -> Iterator[str]:
    for owner, binding, name in _bindings(objects, lights):
        if name not in names:
            known = ", ".join(names)
            yield f"{owner}: {binding.what} is bound to {name!r}, which is not a factor; the factors are {known}"
        elif name in ranges and not all(map(binding.accepts, (ranges[name].low, ranges[name].high))):
            span = f"{ranges[name].low:g} to {ranges[name].high:g}"
            yield f"{owner}: {binding.what} is {binding.expected}, but its factor {name!r} goes from {span}"


def _idle_factors(
    objects: Sequence[ObjectTemplate], lights: Sequence[LightTemplate], names: Collection[str]
) -> Iterator[str]:
    bound = {name for _, _, name in _bindings(objects, lights)}
    idle = [name for name in names if name not in bound]
    if idle:
        yield f"nothing is bound to {', '.join(idle)}: every factor has to be bound to a number of the scene"


def _faults_between_parts(data: Any) -> list[str]:
    """Return what is wrong between the parts of a world of which some are wrong in themselves.

    Names count although the rest of what they name is wrong, so that no fault is reported that follows from another.
    """
    lists = {key: _list_of(data, key) for key in ("factors", "bodies", "lights")}
    names = {
        key: [item["name"] for item in items if isinstance(item, Mapping) and isinstance(item.get("name"), str)]
        for key, items in lists.items()
    }
    ranges = {factor.name: factor for factor in _sound(Factor, lists["factors"])}
    objects = [part.template() for part in _sound(_ObjectTemplateLayout, lists["bodies"])]
    lights = [part.template() for part in _sound(_LightTemplateLayout, lists["lights"])]
    faults = [
        *_faults_of_names(objects, lights, names["bodies"]),
        *_faults_of_bindings(objects, lights, names["factors"], ranges),
    ]
    if len(objects) == len(lists["bodies"]) and len(lights) == len(lists["lights"]):
        faults += _idle_factors(objects, lights, names["factors"])
    return faults


def _list_of(data: Any, key: str) -> list[Any]:
    items = data.get(key) if isinstance(data, Mapping) else None
    return items if isinstance(items, list) else []


def _sound(kind: type[T], items: list[Any]) -> list[T]:
    return [found for item in items if (found := parse(kind, item, "")[0]) is not None]
