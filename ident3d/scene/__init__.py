"""The scene without any renderer: a world that maps latents to scenes, and the meshes in it."""

from ident3d.scene.meshes import SHAPES, Mesh, shape
from ident3d.scene.scene import AreaLamp, Camera, Light, Material, Scene, SceneObject, SpotLamp, SunLamp
from ident3d.scene.templates import HSVColour, HueMap, LightTemplate, ObjectTemplate, Orbit
from ident3d.scene.world import World

__all__ = [
    "SHAPES",
    "AreaLamp",
    "Camera",
    "HSVColour",
    "HueMap",
    "Light",
    "LightTemplate",
    "Material",
    "Mesh",
    "ObjectTemplate",
    "Orbit",
    "Scene",
    "SceneObject",
    "SpotLamp",
    "SunLamp",
    "World",
    "shape",
]
