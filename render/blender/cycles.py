"""The one module that talks to Blender.

It is imported only in processes that render, because importing bpy changes a process: its arguments, its output, its
memory, and how it exits. Works with bpy 4.5 and 5.2, and inside the Blender executables of these versions.
"""

import math
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_arguments = list(sys.argv)
import bpy  # noqa: E402
from mathutils import Vector  # noqa: E402

sys.argv[:] = _arguments  # bpy replaces them

from ident3d.scene.meshes import shape  # noqa: E402
from ident3d.scene.scene import AreaLamp, Camera, Light, Material, Scene, SceneObject, SpotLamp, SunLamp  # noqa: E402
from render.blender.protocol import (  # noqa: E402
    GPUS,
    BlenderMissingError,
    Device,
    DeviceMissingError,
    Settings,
    WorkerInfo,
)
from render.blender.quality import LightChoice, Quality  # noqa: E402

__all__ = ["Blender"]

OLDEST = (4, 5, 0)


class Blender:
    """Blender as a function from a scene and a seed to an image.

    The first scene is built. As long as the following ones differ in numbers alone, as those of one world do, objects
    and lights are only moved and recoloured. An image depends on the scene, the seed and the settings: not on the
    images before it nor, on the CPU, on the number of threads.

    Attributes:
        about: the versions and the device.

    Args:
        settings: the settings of all images.
        folder: an empty folder for the image that is being rendered.

    Raises:
        BlenderMissingError: if this Blender is older than 4.5.
        DeviceMissingError: if the device is not available, or this Blender was built without support for it.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        if bpy.app.version < OLDEST:
            raise BlenderMissingError(f"Blender {bpy.app.version_string} is too old: 4.5 and 5.2 are known to work")
        self._settings = settings
        self._path = folder / "image.png"
        self.about = self._begin()

    def render(self, scene: Scene, seed: int) -> bytes:
        """Render one image.

        Args:
            scene: what it shows.
            seed: seed of the sampling noise, 0 or larger and below 2**31.

        Returns:
            The image as Blender writes it: PNG, RGB, 8 bits per channel, sRGB.

        Raises:
            ValueError: if the seed is out of range.
            RuntimeError: if Blender reports an error.
        """
        if not 0 <= seed < 2**31:
            raise ValueError(f"a sampling seed is 0 or larger and below 2**31, not {seed}")
        if self._plan != _plan(scene):
            self._begin()
            self._build(scene)
        self._place(scene)
        self._scene.cycles.seed = seed
        # Without this, Blender keeps the seed of the first image while its data persist from image to image.
        self._scene.update_tag()
        bpy.ops.render.render(write_still=True)
        written = self._path.read_bytes()
        self._path.unlink()  # so that a failed render cannot return this image again
        return written

    def _begin(self) -> WorkerInfo:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        self._scene: Any = bpy.context.scene
        self._plan: object = None
        self._objects: dict[str, _BuiltObject] = {}
        self._lights: dict[str, _BuiltLight] = {}
        _set_output(self._scene, self._settings, self._path)
        _set_quality(self._scene, self._settings.quality)
        device, name = _set_device(self._scene, self._settings.device)
        return WorkerInfo(bpy.app.version_string, platform.python_version(), device, name)

    def _build(self, scene: Scene) -> None:
        is_weighted = self._settings.quality.light_choice is LightChoice.WEIGHTED
        self._scene.camera = _new_object(self._scene, "camera", bpy.data.cameras.new("camera"))
        self._objects = {thing.name: _BuiltObject(self._scene, thing) for thing in scene.objects}
        self._lights = {
            light.name: _BuiltLight(self._scene, light, light.sampling_weight if is_weighted else 1)
            for light in scene.lights
        }
        self._plan = _plan(scene)

    def _place(self, scene: Scene) -> None:
        _set_camera(self._scene.camera, scene.camera)
        for thing in scene.objects:
            self._objects[thing.name].place(thing)
        for light in scene.lights:
            self._lights[light.name].place(light)


def _plan(scene: Scene) -> object:
    """Return the part of a scene that cannot be changed by setting numbers."""
    objects = [(thing.name, thing.shape, thing.material) for thing in scene.objects]
    return objects, [(light.name, light.lamp.kind, light.sampling_weight) for light in scene.lights]


class _BuiltObject:
    def __init__(self, scene: Any, thing: SceneObject) -> None:
        mesh = shape(thing.shape)
        data = bpy.data.meshes.new(thing.name)
        data.from_pydata(mesh.vertices.tolist(), [], [list(face) for face in mesh.faces])
        data.polygons.foreach_set("use_smooth", [mesh.smooth] * len(mesh.faces))
        data.update()
        self.object = _new_object(scene, thing.name, data)
        material, self.colours = _new_material(thing.name, thing.material)
        data.materials.append(material)

    def place(self, thing: SceneObject) -> None:
        self.object.location = thing.location
        self.object.rotation_euler = thing.rotation
        self.object.scale = (thing.scale,) * 3
        for socket in self.colours:
            socket.default_value = (*thing.colour, 1.0)


class _BuiltLight:
    """A light in Blender: as many lamps as its sampling weight, at one place, that share its power."""

    def __init__(self, scene: Any, light: Light, lamps: int) -> None:
        self.data = bpy.data.lights.new(light.name, light.lamp.kind.upper())
        self.objects = [_new_object(scene, f"{light.name} {i}", self.data) for i in range(lamps)]

    def place(self, light: Light) -> None:
        self.data.energy = light.power / len(self.objects)
        self.data.color = light.colour
        _SET_LAMP[type(light.lamp)](self.data, light.lamp)
        for lamp in self.objects:
            _aim(lamp, light.location, light.target)


def _set_sun(data: Any, lamp: SunLamp) -> None:
    data.angle = lamp.diameter_rad


def _set_area(data: Any, lamp: AreaLamp) -> None:
    data.shape, data.size = "SQUARE", lamp.edge


def _set_spot(data: Any, lamp: SpotLamp) -> None:
    data.shadow_soft_size = lamp.radius
    data.spot_size, data.spot_blend = lamp.cone_rad, lamp.blend


_SET_LAMP: dict[type, Callable[[Any, Any], None]] = {SunLamp: _set_sun, AreaLamp: _set_area, SpotLamp: _set_spot}


def _new_object(scene: Any, name: str, data: Any) -> Any:
    thing = bpy.data.objects.new(name, data)
    scene.collection.objects.link(thing)
    return thing


def _new_material(name: str, material: Material) -> tuple[Any, list[Any]]:
    """Return a new material, and the sockets that take the object's colour."""
    data = bpy.data.materials.new(name)
    if bpy.app.version < (5, 0):
        data.use_nodes = True
    tree = data.node_tree
    tree.nodes.clear()

    def node(kind: str, **settings: Any) -> Any:
        new = tree.nodes.new(kind)
        for key, value in settings.items():
            setattr(new, key, value)
        return new

    def mixed(ior: float, first: Any, second: Any) -> Any:
        fresnel, mix = node("ShaderNodeFresnel"), node("ShaderNodeMixShader")
        fresnel.inputs["IOR"].default_value = ior
        tree.links.new(fresnel.outputs[0], mix.inputs[0])
        tree.links.new(first.outputs[0], mix.inputs[1])
        tree.links.new(second.outputs[0], mix.inputs[2])
        return mix

    diffuse = node("ShaderNodeBsdfDiffuse")
    diffuse.inputs["Roughness"].default_value = 0.0
    velvet = node("ShaderNodeBsdfSheen", distribution="ASHIKHMIN")
    velvet.inputs["Roughness"].default_value = material.velvet_sigma
    coat = node("ShaderNodeBsdfAnisotropic", distribution="BECKMANN")
    coat.inputs["Color"].default_value = (material.coat,) * 3 + (1.0,)
    coat.inputs["Roughness"].default_value = math.sqrt(material.roughness)
    inner = mixed(material.ior + material.velvet_ior_offset, diffuse, velvet)
    outer = mixed(material.ior, inner, coat)
    output = node("ShaderNodeOutputMaterial")
    tree.links.new(outer.outputs[0], output.inputs["Surface"])
    return data, [diffuse.inputs["Color"], velvet.inputs["Color"]]


def _set_camera(thing: Any, camera: Camera) -> None:
    data = thing.data
    data.type = "PERSP"
    data.lens, data.sensor_width, data.sensor_fit = camera.lens_mm, camera.sensor_mm, "AUTO"
    data.clip_start, data.clip_end = camera.clip_start, camera.clip_end
    _aim(thing, camera.location, camera.target)


def _aim(thing: Any, location: tuple[float, float, float], target: tuple[float, float, float]) -> None:
    thing.location = location
    thing.rotation_mode = "QUATERNION"
    thing.rotation_quaternion = (Vector(target) - Vector(location)).to_track_quat("-Z", "Y")


def _set_output(scene: Any, settings: Settings, path: Path) -> None:
    render = scene.render
    render.engine = "CYCLES"
    render.resolution_x = render.resolution_y = settings.resolution
    render.resolution_percentage = 100
    render.threads_mode, render.threads = "FIXED", settings.threads
    render.use_persistent_data = True
    render.use_compositing = render.use_sequencer = False
    render.film_transparent = False
    render.dither_intensity = 0.0
    render.filepath = str(path)
    render.use_file_extension = False
    render.image_settings.file_format = "PNG"
    render.image_settings.color_mode = "RGB"
    render.image_settings.color_depth = "8"
    render.image_settings.compression = 50
    scene.view_layers[0].use_pass_z = False
    scene.display_settings.display_device = "sRGB"
    scene.view_settings.view_transform = "Standard"
    scene.view_settings.look = "None"
    scene.view_settings.exposure = 0.0
    scene.view_settings.gamma = 1.0
    scene.world = None


def _set_device(scene: Any, device: Device) -> tuple[Device, str]:
    """Switch to a device; return which one it is and the hardware's own name."""
    if device is Device.AUTO:
        device = next((gpu for gpu in GPUS if _use(gpu)), Device.CPU)
    names = _use(device)
    if not names:
        there = ", ".join(["cpu", *(gpu.value for gpu in GPUS if _use(gpu))])
        raise DeviceMissingError(
            f"device {device.value} is not available to Blender {bpy.app.version_string} on this machine; choose from "
            f"{there}, or use --device auto for the best of them"
        )
    scene.cycles.device = "CPU" if device is Device.CPU else "GPU"
    scene.cycles.denoising_use_gpu = device is not Device.CPU
    return device, ", ".join(names)


def _use(device: Device) -> list[str]:
    """Enable all hardware of a kind; return its names, an empty list if there is none."""
    preferences = bpy.context.preferences.addons["cycles"].preferences
    try:
        preferences.compute_device_type = "NONE" if device is Device.CPU else device.value.upper()
    except TypeError:  # this Blender was built without support for it
        return []
    preferences.refresh_devices()
    for hardware in preferences.devices:
        hardware.use = hardware.type == device.value.upper()
    return [hardware.name for hardware in preferences.devices if hardware.use]


def _set_quality(scene: Any, quality: Quality) -> None:
    cycles = scene.cycles
    cycles.samples = quality.samples
    cycles.use_adaptive_sampling = quality.adaptive_threshold is not None
    if quality.adaptive_threshold is not None:
        cycles.adaptive_threshold = quality.adaptive_threshold
    cycles.use_light_tree = quality.light_choice is LightChoice.TREE
    cycles.use_denoising = quality.denoiser is not None
    if quality.denoiser is not None:
        cycles.denoiser = "OPENIMAGEDENOISE"
        cycles.denoising_input_passes = "RGB_ALBEDO_NORMAL"
        cycles.denoising_prefilter = quality.denoiser.prefilter.value
        cycles.denoising_quality = quality.denoiser.quality.value
    cycles.max_bounces = 0
    cycles.transparent_max_bounces = 8
    cycles.blur_glossy = 2.0
    cycles.sample_clamp_direct = cycles.sample_clamp_indirect = 0.0
    cycles.pixel_filter_type, cycles.filter_width = "BLACKMAN_HARRIS", 1.5
    cycles.film_exposure = 1.0
