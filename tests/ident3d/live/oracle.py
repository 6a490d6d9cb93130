"""A slow ray caster in NumPy, straight from the formulas of the scene's light, to check the live renderer against.

It shares no code with :mod:`ident3d.live`: every ray meets every triangle, and every sample looks at a point of each
light of its own. ``python -m tests.ident3d.live.oracle`` renders the images in ``data/``.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.stats import qmc

from ident3d.scene.meshes import shape
from ident3d.scene.scene import AreaLamp, SpotLamp, SunLamp
from ident3d.scene.world import World

DATA = Path(__file__).parent / "data"
RESOLUTION = 64
SAMPLES = 256
ROWS = 4
"""Images in data/, of the first latents of seed 2026."""

_RAYS_AT_ONCE = 512
_FILTER = (0.35875, -0.48829, 0.14128, -0.01168)


def render(scene, resolution, pixels, samples, seed=0):
    """Return the (K, 3) sRGB values in [0, 255] of (K, 2) pixels (x, y)."""
    caster = Caster(scene)
    shift = np.stack([np.random.default_rng([seed, *map(int, pixel)]).random(8) for pixel in pixels])
    total = np.zeros((len(pixels), 3))
    for point in qmc.Sobol(8, seed=seed).random(samples):
        unit = (point + shift) % 1
        offset = _filter_offset(unit[:, :2])
        total += caster.radiance((pixels + 0.5 + offset) / resolution, unit[:, 2:])
    linear = np.clip(total / samples, 0, 1)
    coded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 1e-9) ** (1 / 2.4) - 0.055)
    return 255 * coded


def image(scene, resolution, samples):
    """Return an image, (H, W, 3) float64 in [0, 255]."""
    y, x = np.mgrid[:resolution, :resolution]
    pixels = np.stack([x.ravel(), y.ravel()], axis=1)
    return render(scene, resolution, pixels, samples).reshape(resolution, resolution, 3)


def psnr(image, reference):
    """Return the peak signal-to-noise ratio of 8-bit values, in dB."""
    error = np.mean((np.asarray(image, dtype=np.float64) - np.asarray(reference, dtype=np.float64)) ** 2)
    return float(10 * np.log10(255**2 / error))


class Caster:
    """The radiance that arrives along camera rays."""

    def __init__(self, scene):
        self.scene = scene
        (self.body,) = (body for body in scene.objects if body.shape != "plane")
        (self.ground,) = (body for body in scene.objects if body.shape == "plane")
        mesh = shape(self.body.shape)
        vertices = mesh.vertices * self.body.scale @ euler(self.body.rotation).T + self.body.location
        self.faces = np.array([[f[0], f[i], f[i + 1]] for f in mesh.faces for i in range(1, len(f) - 1)])
        self.normals = _vertex_normals(vertices, mesh.faces)
        a, b, c = (vertices[self.faces[:, i]] for i in range(3))
        self.meeting = _meeting(a, b - a, c - a)
        self.face_normals = np.cross(b - a, c - a)
        self.centre = (vertices.min(0) + vertices.max(0)) / 2
        self.radius = np.linalg.norm(vertices - self.centre, axis=1).max()

    def radiance(self, place, unit):
        """Return the linear radiance of rays through ``place``, the (K, 2) parts of the image's width and height."""
        camera = self.scene.camera
        forward = _unit(np.subtract(camera.target, camera.location))
        right = _unit(np.cross(forward, [0, 0, 1]))
        up = np.cross(right, forward)
        half = camera.sensor_mm / 2 / camera.lens_mm
        across, above = (2 * place[:, :1] - 1) * half, (1 - 2 * place[:, 1:]) * half
        ray = _unit(forward + across * right + above * up)
        start = np.broadcast_to(np.array(camera.location), ray.shape)
        distance, face, u, v = self.first(start, ray)
        to_ground = (self.ground.location[2] - start[:, 2]) / ray[:, 2]
        to_ground[ray[:, 2] >= 0] = np.inf
        on_body, on_ground = distance < to_ground, (to_ground <= distance) & np.isfinite(to_ground)
        light = np.zeros((len(ray), 3))
        corner = self.normals[self.faces[face[on_body]]]
        weights = np.stack([1 - u - v, u, v], axis=1)[on_body]
        smooth = _unit(np.einsum("kc,kcd->kd", weights, corner))
        flat = _unit(self.face_normals[face[on_body]])
        for mask, body, t, n, ng in (
            (on_body, self.body, distance, smooth, flat),
            (on_ground, self.ground, to_ground, *(np.broadcast_to([0.0, 0.0, 1.0], (on_ground.sum(), 3)),) * 2),
        ):
            point = start[mask] + t[mask, None] * ray[mask]
            light[mask] = self.shaded(body, point, (n, ng), -ray[mask], unit[mask])
        return light

    def shaded(self, body, point, normals, view, unit):
        """Return the light of all lamps that points send towards the viewer."""
        normal, face_normal = normals
        behind = np.sum(face_normal * view, axis=1) < 0
        side = np.where(behind, -1.0, 1.0)[:, None]
        normal, face_normal = side * normal, side * face_normal
        total = np.zeros_like(point)
        for i, light in enumerate(self.scene.lights):
            towards, reach, power = _lamp(light, point, unit[:, 2 * i : 2 * i + 2])
            lit = (np.sum(face_normal * towards, axis=1) > 0) & (power > 0)
            lit[lit] = ~self.blocked(point[lit] + 1e-4 * face_normal[lit], towards[lit], reach[lit])
            answer = _answer(body, normal[lit], view[lit], towards[lit], behind[lit])
            total[lit] += power[lit, None] * answer * light.colour
        return total

    def first(self, start, ray):
        """Return distance (infinite for none), face, u and v of the first meeting of each ray."""
        distance, face = np.full(len(ray), np.inf), np.zeros(len(ray), dtype=int)
        u, v = np.zeros(len(ray)), np.zeros(len(ray))
        near = np.flatnonzero(self._near(start, ray))
        for part in np.array_split(near, max(1, -(-len(near) // _RAYS_AT_ONCE))):
            t, us, vs = self._all(start[part], ray[part])
            best = t.argmin(axis=1)
            rows = np.arange(len(part))
            distance[part], face[part] = t[rows, best], best
            u[part], v[part] = us[rows, best], vs[rows, best]
        return distance, face, u, v

    def blocked(self, start, ray, reach):
        """Return whether each ray meets anything within its reach."""
        result = np.zeros(len(ray), dtype=bool)
        near = np.flatnonzero(self._near(start, ray))
        for part in np.array_split(near, max(1, -(-len(near) // _RAYS_AT_ONCE))):
            t, _, _ = self._all(start[part], ray[part])
            result[part] = (t < reach[part, None]).any(axis=1)
        return result

    def _near(self, start, ray):
        to_centre = self.centre - start
        along = np.maximum(np.sum(to_centre * ray, axis=1), 0)
        return np.sum((to_centre - along[:, None] * ray) ** 2, axis=1) <= self.radius**2

    def _all(self, start, ray):
        moment = np.concatenate([ray, np.cross(start, ray)], axis=1)
        place = np.concatenate([start, np.ones((len(start), 1))], axis=1)
        of_u, of_v, of_t, of_d = self.meeting
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1 / (ray @ of_d)
            u, v, t = moment @ of_u * inverse, moment @ of_v * inverse, place @ of_t * inverse
        t[~((u >= 0) & (v >= 0) & (u + v <= 1) & (t > 1e-9))] = np.inf
        return t, u, v


def _meeting(a, e, f):
    """Return the matrices by which rays meet the triangles a, a + e, a + f.

    With n = e x f, the ray o + t d meets the plane at t = (a - o) n / (d n); u and v are linear in d and o x d.
    """
    n = np.cross(e, f)
    of_u = np.concatenate([-np.cross(a, f), -f], axis=1).T
    of_v = np.concatenate([np.cross(a, e), e], axis=1).T
    of_t = np.concatenate([-n, np.sum(a * n, axis=1, keepdims=True)], axis=1).T
    return of_u, of_v, of_t, n.T


def _lamp(light, point, unit):
    """Return direction, distance and power of light: what a surface that faces it gets, before the light's colour."""
    lamp, axis = light.lamp, _unit(np.subtract(light.target, light.location))
    if isinstance(lamp, SunLamp):
        s, t = _frame(-axis)
        x, y = _disk(unit) * np.tan(lamp.diameter_rad / 2)
        towards = _unit(-axis + x[:, None] * s + y[:, None] * t)
        power = np.full(len(point), light.power * 2 / (1 + np.cos(lamp.diameter_rad / 2)))
        return towards, np.full(len(point), np.inf), power
    location = np.array(light.location)
    if isinstance(lamp, AreaLamp):
        s = _unit(np.cross(axis, [0, 0, 1])) if np.hypot(axis[0], axis[1]) > 1e-9 else np.array([1.0, 0, 0])
        t = np.cross(s, axis)
        x, y = ((unit - 0.5) * lamp.edge).T
        arrow = location + x[:, None] * s + y[:, None] * t - point
        facing = np.broadcast_to(axis, arrow.shape)
        emitted = light.power / np.pi
    else:
        facing = _unit(point - location)
        s, t = _frame(facing)
        x, y = _disk(unit) * lamp.radius
        arrow = location + x[:, None] * s + y[:, None] * t - point
        emitted = light.power / (4 * np.pi)
    distance = np.linalg.norm(arrow, axis=1)
    towards = arrow / distance[:, None]
    power = emitted * np.maximum(np.sum(-towards * facing, axis=1), 0) / distance**2
    if isinstance(lamp, SpotLamp):
        outer = np.cos(lamp.cone_rad / 2)
        x = np.clip((-towards @ axis - outer) / (lamp.blend * (1 - outer)), 0, 1)
        power = power * x * x * (3 - 2 * x)
    return towards, distance, power


def _answer(body, normal, view, towards, behind):
    """Return the share of a facing light's power that goes to the viewer, (K, 3), the cosine of the light included."""
    material = body.material
    nl, nv = (np.sum(normal * other, axis=1) for other in (towards, view))
    inner = _fresnel(nv, material.ior + material.velvet_ior_offset, behind)
    outer = _fresnel(nv, material.ior, behind)
    diffuse = (1 - outer) * (1 - inner) * np.maximum(nl, 0) / np.pi
    half = _unit(view + towards)
    nh, vh = np.sum(normal * half, axis=1), np.sum(view * half, axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cos2 = nh**2
        sin2 = np.maximum(1 - cos2, 1e-12)
        square = material.velvet_sigma**2
        slope = np.minimum(1, np.minimum(2 * nh * nv / vh, 2 * nh * nl / vh))
        velvet = (1 - outer) * inner * np.exp(-cos2 / sin2 / square) * slope / (4 * nv * square * np.pi * sin2**2)
        alpha = material.roughness
        spread = np.exp(-(1 - cos2) / cos2 / alpha**2) / (alpha**2 * np.pi * cos2**2)
        coat = material.coat * outer * spread / (4 * nv * (1 + _masking(nv, alpha) + _masking(nl, alpha)))
    shown = (nl > 1e-6) & (nv > 1e-6)
    coloured = diffuse + np.where(shown, velvet, 0)
    return coloured[:, None] * np.maximum(body.colour, 0) + np.where(shown, coat, 0)[:, None]


def _fresnel(cosine, index, behind):
    index = np.where(behind, 1 / index, index)
    c = np.abs(cosine)
    g2 = index**2 - 1 + c**2
    g = np.sqrt(np.maximum(g2, 0))
    a, b = (g - c) / (g + c), ((g + c) * c - 1) / ((g - c) * c + 1)
    return np.where(g2 > 0, 0.5 * a**2 * (1 + b**2), 1.0)


def _masking(cosine, alpha):
    a = cosine / (alpha * np.sqrt(np.maximum(1 - cosine**2, 1e-12)))
    return np.where(a < 1.6, (1 - 1.259 * a + 0.396 * a**2) / (3.535 * a + 2.181 * a**2), 0)


def _filter_offset(unit):
    t = np.linspace(0, 1, 4097)
    density = sum(a * np.cos(2 * np.pi * k * t) for k, a in enumerate(_FILTER))
    cumulative = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return 3 * (np.interp(unit, cumulative / cumulative[-1], t) - 0.5)


def _disk(unit):
    radius, angle = np.sqrt(unit[:, 0]), 2 * np.pi * unit[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)])


def _frame(axis):
    axis = np.atleast_2d(axis)
    helper = np.where(np.abs(axis[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]])
    s = _unit(np.cross(axis, helper))
    return s, np.cross(axis, s)


def euler(angles):
    x, y, z = angles
    around_x = np.array([[1, 0, 0], [0, np.cos(x), -np.sin(x)], [0, np.sin(x), np.cos(x)]])
    around_y = np.array([[np.cos(y), 0, np.sin(y)], [0, 1, 0], [-np.sin(y), 0, np.cos(y)]])
    around_z = np.array([[np.cos(z), -np.sin(z), 0], [np.sin(z), np.cos(z), 0], [0, 0, 1]])
    return around_z @ around_y @ around_x


def _vertex_normals(vertices, faces):
    """Return the vertices' normals: those of their faces, weighted by the angles in them."""
    normals = np.zeros_like(vertices)
    for face in faces:
        ring = vertices[list(face)]
        normal = _unit(sum(np.cross(ring[i], ring[(i + 1) % len(ring)]) for i in range(len(ring))))
        ahead, back = _unit(np.roll(ring, -1, axis=0) - ring), _unit(np.roll(ring, 1, axis=0) - ring)
        angle = np.arccos(np.clip(np.sum(ahead * back, axis=1), -1, 1))
        normals[list(face)] += angle[:, None] * normal
    return _unit(normals)


def _unit(vector):
    return vector / np.linalg.norm(vector, axis=-1, keepdims=True)


def latents(rows=ROWS):
    """Return the latents of the images in data/, (rows, 10)."""
    from ident3d.latents import sample_latents

    return sample_latents(rows, seed=2026)


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for number, row in enumerate(latents()):
        pixels = image(World().scene(row), RESOLUTION, int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES)
        Image.fromarray(np.round(pixels).astype(np.uint8)).save(DATA / f"oracle-{number}.png")
