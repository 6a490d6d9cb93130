"""The device's side of the live renderer: Warp kernels, one source for CPU and CUDA.

All places are in the frame of the object, in units of its mesh: there its triangles, its distance field and its table
of open directions stand still, and camera, ground and lamps move instead. Images have a border of one pixel, since the
pixel filter reaches 1.5 pixels to either side; every pixel is a square of ``grid`` by ``grid`` sub-pixels.
"""

import warp as wp

wp.set_module_options({"enable_backward": False, "fast_math": False, "optimization_level": 3})

SUN = wp.constant(0)
AREA = wp.constant(1)
SPOT = wp.constant(2)

# What a pixel of the ground sees of a lamp.
LIT = wp.constant(0)
DARK = wp.constant(1)
IN_DOUBT = wp.constant(2)

# What is given for each image, in rows of three numbers.
CAMERA = wp.constant(0)
FORWARD = wp.constant(1)
RIGHT = wp.constant(2)
UP = wp.constant(3)
GROUND_NORMAL = wp.constant(4)
GROUND_HEIGHT = wp.constant(5)  # along the normal; then the depths up to which, and from which on, things are seen
OBJECT_COLOUR = wp.constant(6)
GROUND_COLOUR = wp.constant(7)

# And for each lamp of each image.
LOCATION = wp.constant(0)
AXIS = wp.constant(1)
SIDE_S = wp.constant(2)
SIDE_T = wp.constant(3)
POWER = wp.constant(4)
SHAPE = wp.constant(5)  # its size, the cosine of a spot's edge, and one over the width of that edge

DEPTH_STEPS = wp.constant(wp.float32(1.0e9))
PI = wp.constant(wp.float32(3.14159265358979))
TILE = wp.constant(32)
BLOCK = wp.constant(4)
NEAR = wp.constant(wp.float32(2.5))  # edges of a square lamp
CELLS = wp.constant(16)
"""Directions of the table of open ones, along each side of the octahedron's square."""


@wp.struct
class Surface:
    """A material's numbers, as the formulas take them."""

    ior: wp.float32
    inner_ior: wp.float32
    velvet: wp.float32  # one over the square of the sheen's width
    alpha: wp.float32  # the coat's roughness
    coat: wp.float32


@wp.struct
class Solid:
    """The object: its mesh, and what is known about it in advance; see :mod:`ident3d.live.solid`."""

    mesh: wp.uint64
    centre: wp.vec3  # of a ball around it
    radius: wp.float32
    origin: wp.vec3  # the first corner of the distance field
    cell: wp.float32
    slack: wp.float32  # by how much the field may be wrong
    field: wp.array3d(dtype=wp.float32)
    balls: wp.array(dtype=wp.vec4)  # within it: centres and radii
    corners: wp.array2d(dtype=wp.vec3)  # of each triangle: a corner, two edges, three normals
    open: wp.array2d(dtype=wp.uint32)  # of each triangle: a bit for each cell of directions


@wp.func
def fresnel(cosine: wp.float32, index: wp.float32):
    c = wp.abs(cosine)
    g2 = index * index - 1.0 + c * c
    if g2 <= 0.0:
        return wp.float32(1.0)
    g = wp.sqrt(g2)
    a = (g - c) / (g + c)
    b = ((g + c) * c - 1.0) / ((g - c) * c + 1.0)
    return 0.5 * a * a * (1.0 + b * b)


@wp.func
def masking(cosine: wp.float32, alpha: wp.float32):
    a = cosine / (alpha * wp.sqrt(wp.max(1.0 - cosine * cosine, 1.0e-12)))
    if a >= 1.6:
        return wp.float32(0.0)
    return (1.0 - 1.259 * a + 0.396 * a * a) / (3.535 * a + 2.181 * a * a)


@wp.struct
class View:
    """What the formulas need of a surface and its viewer, whatever the lamp."""

    towards: wp.vec3
    normal: wp.vec3
    nv: wp.float32
    diffuse: wp.float32
    velvet: wp.float32
    coat: wp.float32
    masked: wp.float32


@wp.func
def seen(material: Surface, normal: wp.vec3, towards: wp.vec3, behind: wp.bool):
    """Return what a surface is from where it is seen; ``behind``: from its back."""
    view = View()
    view.towards = towards
    view.normal = normal
    view.nv = wp.dot(normal, towards)
    ior = material.ior
    inner_ior = material.inner_ior
    if behind:
        ior = 1.0 / ior
        inner_ior = 1.0 / inner_ior
    outer = fresnel(view.nv, ior)
    inner = fresnel(view.nv, inner_ior)
    view.diffuse = (1.0 - outer) * (1.0 - inner) / PI
    view.velvet = 0.0
    view.coat = 0.0
    view.masked = 1.0
    if view.nv > 1.0e-6:
        alpha2 = material.alpha * material.alpha
        view.velvet = (1.0 - outer) * inner * material.velvet / (4.0 * PI * view.nv)
        view.coat = material.coat * outer / (4.0 * PI * alpha2 * view.nv)
        view.masked = 1.0 + masking(view.nv, material.alpha)
    return view


@wp.func
def answer(material: Surface, view: View, towards: wp.vec3, nl: wp.float32):
    """Return the share of a facing lamp's light that goes to the viewer: in the surface's colour, and in grey."""
    coloured = view.diffuse * nl
    grey = wp.float32(0.0)
    if view.nv > 1.0e-6:
        vl = wp.dot(view.towards, towards)
        half2 = wp.max(0.5 * (1.0 + vl), 1.0e-9)  # the square of the cosine of the light to the half vector
        vh = wp.sqrt(half2)
        nh = 0.5 * (nl + view.nv) / vh
        cos2 = wp.min(nh * nh, 1.0)
        sin2 = wp.max(1.0 - cos2, 1.0e-9)
        slope = wp.min(1.0, 2.0 * nh * wp.min(view.nv, nl) / vh)
        coloured += view.velvet * slope * wp.exp(-cos2 / sin2 * material.velvet) / (sin2 * sin2)
        alpha2 = material.alpha * material.alpha
        spread = wp.exp(-sin2 / (cos2 * alpha2)) / (cos2 * cos2)
        grey = view.coat * spread / (view.masked + masking(nl, material.alpha))
    return wp.vec2(coloured, grey)


@wp.func
def edge(cosine: wp.float32, shape: wp.vec3):
    """Return the part of a spot's light at a cosine to its axis."""
    x = wp.clamp((cosine - shape[1]) * shape[2], 0.0, 1.0)
    return x * x * (3.0 - 2.0 * x)


@wp.func
def lamp_ray(
    kind: wp.int32, lamps: wp.array3d(dtype=wp.vec3), image: wp.int32, lamp: wp.int32, point: wp.vec3, at: wp.vec2
):
    """Return the direction, the distance and the power of the light of one place of a lamp.

    A spot's power is that within its cone. ``at`` is a place of the unit disk, or of the square of edge 1 about the
    origin.
    """
    s = lamps[image, lamp, SIDE_S]
    t = lamps[image, lamp, SIDE_T]
    axis = lamps[image, lamp, AXIS]
    if kind == SUN:
        return wp.normalize(at[0] * s + at[1] * t - axis), wp.float32(1.0e6), wp.float32(1.0)
    arrow = lamps[image, lamp, LOCATION] - point
    shape = lamps[image, lamp, SHAPE]
    facing = axis
    if kind == SPOT:
        facing = -wp.normalize(arrow)
        s = wp.normalize(wp.cross(facing, s))
        t = wp.cross(facing, s)
        arrow += shape[0] * (at[0] * s + at[1] * t)
    else:
        arrow += at[0] * s + at[1] * t
    square = wp.dot(arrow, arrow)
    distance = wp.sqrt(square)
    towards = arrow / distance
    return towards, distance, wp.max(-wp.dot(towards, facing), 0.0) / square


@wp.func
def looks_at(
    kind: wp.int32,
    lamps: wp.array3d(dtype=wp.vec3),
    image: wp.int32,
    lamp: wp.int32,
    point: wp.vec3,
    on_object: wp.bool,
):
    """Return how many places of a lamp a sub-pixel looks at: more where the object is near to a large one."""
    if kind != AREA or not on_object:
        return 1
    arrow = lamps[image, lamp, LOCATION] - point
    size = NEAR * lamps[image, lamp, SHAPE][0]
    if wp.dot(arrow, arrow) < size * size:
        return 4
    return 1


@wp.func
def moved(at: wp.vec2, look: wp.int32):
    """Return a place of a lamp as it is at the first look; then each one has its own quarter of the square."""
    if look == 0:
        return at
    x = at[0] + 0.5 * wp.float32(look % 2)
    y = at[1] + 0.5 * wp.float32(look // 2)
    return wp.vec2(wp.where(x >= 0.5, x - 1.0, x), wp.where(y >= 0.5, y - 1.0, y))


@wp.func
def distance_to(solid: Solid, place: wp.vec3):
    """Return at most the distance from a place to the object's surface; negative inside."""
    grid = (place - solid.origin) / solid.cell
    nx = solid.field.shape[0]
    ny = solid.field.shape[1]
    nz = solid.field.shape[2]
    x = wp.clamp(grid[0], 0.0, wp.float32(nx - 1) - 0.001)
    y = wp.clamp(grid[1], 0.0, wp.float32(ny - 1) - 0.001)
    z = wp.clamp(grid[2], 0.0, wp.float32(nz - 1) - 0.001)
    outside = solid.cell * (grid - wp.vec3(x, y, z))
    square = wp.dot(outside, outside)
    i = wp.int32(x)
    j = wp.int32(y)
    k = wp.int32(z)
    x -= wp.float32(i)
    y -= wp.float32(j)
    z -= wp.float32(k)
    low = wp.lerp(
        wp.lerp(solid.field[i, j, k], solid.field[i, j, k + 1], z),
        wp.lerp(solid.field[i, j + 1, k], solid.field[i, j + 1, k + 1], z),
        y,
    )
    high = wp.lerp(
        wp.lerp(solid.field[i + 1, j, k], solid.field[i + 1, j, k + 1], z),
        wp.lerp(solid.field[i + 1, j + 1, k], solid.field[i + 1, j + 1, k + 1], z),
        y,
    )
    away = wp.lerp(low, high, x)
    if square > 0.0:
        # The field holds the object, so seen from its border, the object is at a right angle or more from the place.
        away = wp.sqrt(square + away * away)
    return away


@wp.func
def fills(solid: Solid, start: wp.vec3, towards: wp.vec3, reach: wp.float32, width: wp.float32, growth: wp.float32):
    """Return whether every ray of a cone meets one of the balls in the object."""
    for k in range(solid.balls.shape[0]):
        ball = solid.balls[k]
        to_centre = wp.vec3(ball[0], ball[1], ball[2]) - start
        along = wp.clamp(wp.dot(to_centre, towards), 0.0, reach)
        off = to_centre - along * towards
        left = ball[3] - width - growth * along
        if left > 0.0 and wp.dot(off, off) < left * left:
            return True
    return False


@wp.func
def coverage(solid: Solid, start: wp.vec3, towards: wp.vec3, reach: wp.float32, width: wp.float32, growth: wp.float32):
    """Return whether the object covers none, all, or some of a cone: LIT, DARK or IN_DOUBT.

    The cone's radius is ``width`` at its start and grows by ``growth`` a unit of length.
    """
    to_centre = solid.centre - start
    along = wp.dot(to_centre, towards)
    middle = wp.clamp(along, 0.0, reach)
    off = to_centre - middle * towards
    widest = width + wp.max(growth, 0.0) * wp.min(reach, along + solid.radius)
    limit = solid.radius + wp.max(widest, width)
    square = wp.dot(off, off)
    if square >= limit * limit:
        return LIT
    if fills(solid, start, towards, reach, width, growth):
        return DARK
    t = wp.max(0.0, along - limit)
    end = wp.min(reach, along + limit)
    for _ in range(64):
        if t > end:
            return LIT
        gap = distance_to(solid, start + t * towards) - width - growth * t - solid.slack
        if gap <= 0.0:
            return IN_DOUBT
        t += wp.max(gap / (1.0 + wp.max(growth, 0.0)), 0.5 * solid.cell)
    return IN_DOUBT


@wp.func
def blocked(solid: Solid, start: wp.vec3, towards: wp.vec3, reach: wp.float32):
    """Return whether a ray meets the object."""
    to_centre = solid.centre - start
    along = wp.max(wp.dot(to_centre, towards), 0.0)
    off = to_centre - along * towards
    if wp.dot(off, off) > solid.radius * solid.radius:
        return False
    if fills(solid, start, towards, reach, 0.0, 0.0):
        return True
    return wp.mesh_query_ray_anyhit(solid.mesh, start, towards, reach)


@wp.func
def direction_cell(towards: wp.vec3):
    """Return the cell of a direction in the table of open ones."""
    scale = 1.0 / (wp.abs(towards[0]) + wp.abs(towards[1]) + wp.abs(towards[2]))
    x = towards[0] * scale
    y = towards[1] * scale
    if towards[2] < 0.0:
        folded = (1.0 - wp.abs(y)) * wp.where(x >= 0.0, 1.0, -1.0)
        y = (1.0 - wp.abs(x)) * wp.where(y >= 0.0, 1.0, -1.0)
        x = folded
    half = 0.5 * wp.float32(CELLS)
    i = wp.min(wp.int32((x + 1.0) * half), CELLS - 1)
    j = wp.min(wp.int32((y + 1.0) * half), CELLS - 1)
    return j * CELLS + i


@wp.func
def camera_ray(images: wp.array2d(dtype=wp.vec3), image: wp.int32, x: wp.float32, y: wp.float32, resolution: wp.int32):
    """Return the direction in which a place of the image, in pixels, is seen; of length 1 along the camera's axis."""
    size = 2.0 / wp.float32(resolution)
    return images[image, FORWARD] + (x * size - 1.0) * images[image, RIGHT] + (1.0 - y * size) * images[image, UP]


@wp.kernel
def measure_distances(
    mesh: wp.uint64, origin: wp.vec3, cell: wp.float32, reach: wp.float32, field: wp.array3d(dtype=wp.float32)
):
    """Fill the distance field of a mesh."""
    i, j, k = wp.tid()
    place = origin + cell * wp.vec3(wp.float32(i), wp.float32(j), wp.float32(k))
    found = wp.mesh_query_point_sign_winding_number(mesh, place, reach)
    distance = reach
    if found.result:
        distance = found.sign * wp.length(place - wp.mesh_eval_position(mesh, found.face, found.u, found.v))
    field[i, j, k] = distance


@wp.kernel
def look_around(
    mesh: wp.uint64,
    corners: wp.array2d(dtype=wp.vec3),
    directions: wp.array(dtype=wp.vec3),
    lift: wp.float32,
    sees: wp.array2d(dtype=wp.uint8),
):
    """Say in which directions the middle of each triangle sees the sky, from the side that a direction is on."""
    face, k = wp.tid()
    normal = wp.normalize(wp.cross(corners[face, 1], corners[face, 2]))
    towards = directions[k]
    side = wp.where(wp.dot(normal, towards) >= 0.0, 1.0, -1.0)
    middle = corners[face, 0] + (corners[face, 1] + corners[face, 2]) / 3.0
    result = wp.uint8(1)
    if wp.mesh_query_ray_anyhit(mesh, middle + lift * side * normal, towards, 1.0e6):
        result = wp.uint8(0)
    sees[face, k] = result


@wp.kernel
def project(
    vertices: wp.array(dtype=wp.vec3),
    images: wp.array2d(dtype=wp.vec3),
    spread: wp.float32,  # one over the squared lengths of RIGHT and UP
    resolution: wp.int32,
    grid: wp.int32,
    projected: wp.array2d(dtype=wp.vec3),
):
    """Write the column and row of every vertex in sub-pixels, and one over its depth; 0 behind the camera."""
    image, vertex = wp.tid()
    arrow = vertices[vertex] - images[image, CAMERA]
    depth = wp.dot(arrow, images[image, FORWARD])
    inverse = wp.float32(0.0)
    if depth > images[image, GROUND_HEIGHT][2]:
        inverse = 1.0 / depth
    half = 0.5 * wp.float32(resolution)
    x = wp.dot(arrow, images[image, RIGHT]) * spread * inverse
    y = wp.dot(arrow, images[image, UP]) * spread * inverse
    size = wp.float32(grid)
    projected[image, vertex] = wp.vec3(
        ((x + 1.0) * half + 1.0) * size - 0.5, ((1.0 - y) * half + 1.0) * size - 0.5, inverse
    )


@wp.kernel
def rasterise(
    faces: wp.array2d(dtype=wp.int32),
    projected: wp.array2d(dtype=wp.vec3),
    side: wp.int32,
    nearest: wp.array3d(dtype=wp.int64),
):
    """Write for each sub-pixel which triangle is the nearest at its middle: one over its depth, and its number."""
    image, face = wp.tid()
    a = projected[image, faces[face, 0]]
    b = projected[image, faces[face, 1]]
    c = projected[image, faces[face, 2]]
    area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    if a[2] * b[2] * c[2] <= 0.0 or area == 0.0:
        return
    left = wp.max(wp.int32(wp.ceil(wp.min(a[0], wp.min(b[0], c[0])))), 0)
    right = wp.min(wp.int32(wp.floor(wp.max(a[0], wp.max(b[0], c[0])))), side - 1)
    top = wp.max(wp.int32(wp.ceil(wp.min(a[1], wp.min(b[1], c[1])))), 0)
    bottom = wp.min(wp.int32(wp.floor(wp.max(a[1], wp.max(b[1], c[1])))), side - 1)
    if left > right or top > bottom:
        return
    scale = 1.0 / area
    # u and v: the weights of b and c, which are linear in the image, as one over the depth is
    u_x = (c[1] - a[1]) * scale
    u_y = (a[0] - c[0]) * scale
    v_x = (a[1] - b[1]) * scale
    v_y = (b[0] - a[0]) * scale
    for y in range(top, bottom + 1):
        dy = wp.float32(y) - a[1]
        for x in range(left, right + 1):
            dx = wp.float32(x) - a[0]
            u = u_x * dx + u_y * dy
            v = v_x * dx + v_y * dy
            if u >= -1.0e-5 and v >= -1.0e-5 and u + v <= 1.00001:
                inverse = a[2] + u * (b[2] - a[2]) + v * (c[2] - a[2])
                key = (wp.int64(inverse * DEPTH_STEPS) << wp.int64(24)) + wp.int64(face + 1)
                wp.atomic_max(nearest, image, y, x, key)


@wp.func
def face_of(key: wp.int64):
    return wp.int32(key & wp.int64(0xFFFFFF)) - 1


@wp.func
def soft_edge(point: wp.vec3, location: wp.vec3, axis: wp.vec3, shape: wp.vec3):
    """Return the part of a spot's light at a point, as the mean over the spot's disk."""
    arrow = point - location
    distance = wp.length(arrow)
    cosine = wp.clamp(wp.dot(arrow, axis) / distance, -1.0, 1.0)
    angle = wp.acos(cosine)
    wide = shape[0] / distance
    outer = wp.acos(shape[1])
    inner = wp.acos(wp.min(shape[1] + 1.0 / shape[2], 1.0))
    if angle + wide < inner:
        return wp.float32(1.0)
    if angle - wide > outer:
        return wp.float32(0.0)
    total = wp.float32(0.0)
    weights = wp.float32(0.0)
    for k in range(8):
        # Gauss-Chebyshev of the second kind: the weight is that of the disk's chords
        turn = (wp.float32(k) + 1.0) * PI / 9.0
        sine = wp.sin(turn)
        total += sine * sine * edge(wp.cos(angle + wide * wp.cos(turn)), shape)
        weights += sine * sine
    return total / weights


@wp.func
def widening(kind: wp.int32, shape: wp.vec3, reach: wp.float32, width: wp.float32):
    """Return by how much the cone from a place on the ground to a lamp widens in a unit of length."""
    growth = shape[0]
    if kind == AREA:
        growth = (0.70711 * shape[0] - width) / reach
    if kind == SPOT:
        growth = (shape[0] - width) / reach
    return growth


@wp.kernel
def survey(
    solid: Solid,
    kinds: wp.array(dtype=wp.int32),
    images: wp.array2d(dtype=wp.vec3),
    lamps: wp.array3d(dtype=wp.vec3),
    resolution: wp.int32,
    blocks: wp.array3d(dtype=wp.int32),
):
    """Say for blocks of pixels whether the object covers none, all, or some of each lamp from the ground."""
    image, row, column = wp.tid()
    camera = images[image, CAMERA]
    normal = images[image, GROUND_NORMAL]
    height = images[image, GROUND_HEIGHT]
    above = wp.dot(camera, normal) - height[0]
    x = wp.float32(column * BLOCK) - 1.0
    y = wp.float32(row * BLOCK) - 1.0
    size = wp.float32(BLOCK)
    ray = camera_ray(images, image, x + 0.5 * size, y + 0.5 * size, resolution)
    middle = camera + above / wp.max(-wp.dot(ray, normal), 1.0e-6) * ray
    width = wp.float32(0.0)
    for corner in range(4):
        ray = camera_ray(
            images, image, x + wp.float32(corner % 2) * size, y + wp.float32(corner // 2) * size, resolution
        )
        width = wp.max(width, wp.length(camera + above / wp.max(-wp.dot(ray, normal), 1.0e-6) * ray - middle))
    block = wp.int32(0)
    for k in range(kinds.shape[0]):
        towards, reach, _ = lamp_ray(kinds[k], lamps, image, k, middle, wp.vec2(0.0, 0.0))
        shape = lamps[image, k, SHAPE]
        status = coverage(solid, middle, towards, reach, width, widening(kinds[k], shape, reach, width))
        block = block | (status << (2 * k))
    blocks[image, row, column] = block


@wp.kernel
def classify(
    solid: Solid,
    ground: Surface,
    kinds: wp.array(dtype=wp.int32),
    images: wp.array2d(dtype=wp.vec3),
    lamps: wp.array3d(dtype=wp.vec3),
    nearest: wp.array3d(dtype=wp.int64),
    blocks: wp.array3d(dtype=wp.int32),
    resolution: wp.int32,
    grid: wp.int32,
    even: wp.array3d(dtype=wp.vec3),
    slots: wp.array3d(dtype=wp.int32),
    queue: wp.array(dtype=wp.int32),
    doubts: wp.array(dtype=wp.int32),
    count: wp.array(dtype=wp.int32),
):
    """Shade pixels that show nothing but even ground, and queue all others."""
    image, row, column = wp.tid()
    on_object = wp.int32(0)
    for j in range(grid):
        for i in range(grid):
            if nearest[image, row * grid + j, column * grid + i] != wp.int64(0):
                on_object += 1
    doubt = wp.int32(0)
    block = blocks[image, row // BLOCK, column // BLOCK]
    colour = wp.vec3(0.0)
    if on_object < grid * grid:
        camera = images[image, CAMERA]
        ray = camera_ray(images, image, wp.float32(column) - 0.5, wp.float32(row) - 0.5, resolution)
        normal = images[image, GROUND_NORMAL]
        height = images[image, GROUND_HEIGHT]
        fall = -wp.dot(ray, normal)
        depth = (wp.dot(camera, normal) - height[0]) / fall
        if fall > 1.0e-6 and depth < height[1]:
            point = camera + depth * ray
            towards = -wp.normalize(ray)
            view = seen(ground, normal, towards, False)
            # the radius of the circle on the ground that holds what the pixel sees of it
            width = 1.42 * depth * wp.length(images[image, RIGHT]) / (wp.float32(resolution) * wp.max(view.nv, 0.02))
            for k in range(kinds.shape[0]):
                kind = kinds[k]
                arrow, reach, power = lamp_ray(kind, lamps, image, k, point, wp.vec2(0.0, 0.0))
                nl = wp.dot(normal, arrow)
                shape = lamps[image, k, SHAPE]
                if kind == SPOT:
                    power *= soft_edge(point, lamps[image, k, LOCATION], lamps[image, k, AXIS], shape)
                if nl > 0.0 and power > 0.0:
                    status = (block >> (2 * k)) & 3
                    if status == IN_DOUBT:
                        status = coverage(solid, point, arrow, reach, width, widening(kind, shape, reach, width))
                    doubt = doubt | (status << (2 * k))
                    if status == LIT:
                        part2 = answer(ground, view, arrow, nl)
                        tint = part2[0] * images[image, GROUND_COLOUR] + wp.vec3(part2[1])
                        colour += power * wp.cw_mul(lamps[image, k, POWER], tint)
                else:
                    doubt = doubt | (DARK << (2 * k))
    uneven = on_object > 0
    for k in range(kinds.shape[0]):
        if ((doubt >> (2 * k)) & 3) == IN_DOUBT:
            uneven = True
    if uneven:
        slot = wp.atomic_add(count, 0, 1)
        queue[slot] = (image * (resolution + 2) + row) * (resolution + 2) + column
        doubts[slot] = doubt
        slots[image, row, column] = slot
    else:
        slots[image, row, column] = -1
        even[image, row, column] = colour


@wp.kernel
def shade(
    solid: Solid,
    object_surface: Surface,
    ground: Surface,
    kinds: wp.array(dtype=wp.int32),
    tiles: wp.array3d(dtype=wp.vec2),
    images: wp.array2d(dtype=wp.vec3),
    lamps: wp.array3d(dtype=wp.vec3),
    nearest: wp.array3d(dtype=wp.int64),
    weights: wp.array(dtype=wp.vec3),
    resolution: wp.int32,
    grid: wp.int32,
    lift: wp.float32,
    queue: wp.array(dtype=wp.int32),
    doubts: wp.array(dtype=wp.int32),
    count: wp.array(dtype=wp.int32),
    moments: wp.array2d(dtype=wp.mat33),
):
    """Shade the sub-pixels of a queued pixel, and weigh them for the nine pixels whose filters reach them."""
    slot = wp.tid()
    if slot >= count[0]:
        return
    padded = resolution + 2
    where = queue[slot]
    image = where // (padded * padded)
    row = (where // padded) % padded
    column = where % padded
    doubt = doubts[slot]
    camera = images[image, CAMERA]
    ground_normal = images[image, GROUND_NORMAL]
    height = images[image, GROUND_HEIGHT]
    above = wp.dot(camera, ground_normal) - height[0]
    first = wp.mat33(0.0)
    second = wp.mat33(0.0)
    third = wp.mat33(0.0)
    step = 1.0 / wp.float32(grid)
    for j in range(grid):
        y = row * grid + j
        line = wp.mat33(0.0)
        for i in range(grid):
            x = column * grid + i
            ray = camera_ray(
                images, image, (wp.float32(x) + 0.5) * step - 1.0, (wp.float32(y) + 0.5) * step - 1.0, resolution
            )
            face = face_of(nearest[image, y, x])
            fall = -wp.dot(ray, ground_normal)
            depth = wp.float32(1.0e6)
            if fall > 1.0e-6:
                depth = above / fall
            normal = ground_normal
            flat_normal = ground_normal
            behind = wp.bool(False)
            on_object = wp.bool(False)
            if face >= 0:
                a = solid.corners[face, 0]
                e = solid.corners[face, 1]
                f = solid.corners[face, 2]
                across = wp.cross(e, f)
                arrow = a - camera
                t = wp.dot(arrow, across) / wp.dot(ray, across)
                if t < depth:
                    on_object = True
                    depth = t
                    inside = t * ray - arrow
                    scale = 1.0 / wp.dot(across, across)
                    u = wp.dot(wp.cross(inside, f), across) * scale
                    v = wp.dot(wp.cross(e, inside), across) * scale
                    normal = wp.normalize(
                        (1.0 - u - v) * solid.corners[face, 3] + u * solid.corners[face, 4] + v * solid.corners[face, 5]
                    )
                    flat_normal = across * wp.sqrt(scale)
                    if wp.dot(flat_normal, ray) > 0.0:
                        behind = True
                        normal = -normal
                        flat_normal = -flat_normal
            colour = wp.vec3(0.0)
            if depth < height[1]:
                point = camera + depth * ray
                material = ground
                tint = images[image, GROUND_COLOUR]
                if on_object:
                    material = object_surface
                    tint = images[image, OBJECT_COLOUR]
                view = seen(material, normal, -wp.normalize(ray), behind)
                start = point + lift * flat_normal
                for k in range(kinds.shape[0]):
                    status = (doubt >> (2 * k)) & 3
                    if on_object or status != DARK:
                        kind = kinds[k]
                        at = tiles[k, y % TILE, x % TILE]
                        looks = looks_at(kind, lamps, image, k, point, on_object)
                        for look in range(looks):
                            towards, reach, power = lamp_ray(kind, lamps, image, k, point, moved(at, look))
                            if kind == SPOT:
                                power *= edge(-wp.dot(towards, lamps[image, k, AXIS]), lamps[image, k, SHAPE])
                            nl = wp.dot(normal, towards)
                            if power > 0.0 and nl > 0.0 and wp.dot(flat_normal, towards) > 0.0:
                                dark = wp.bool(False)
                                if on_object:
                                    cell = direction_cell(towards)
                                    word = solid.open[face, cell // 32]
                                    if ((word >> wp.uint32(cell % 32)) & wp.uint32(1)) == wp.uint32(0):
                                        dark = blocked(solid, start, towards, reach)
                                elif status == IN_DOUBT:
                                    dark = blocked(solid, start, towards, reach)
                                if not dark:
                                    part = answer(material, view, towards, nl)
                                    colour += (power / wp.float32(looks)) * wp.cw_mul(
                                        lamps[image, k, POWER], part[0] * tint + wp.vec3(part[1])
                                    )
            line += wp.outer(weights[i], colour)
        first += weights[j][0] * line
        second += weights[j][1] * line
        third += weights[j][2] * line
    moments[slot, 0] = first
    moments[slot, 1] = second
    moments[slot, 2] = third


@wp.func
def coded(linear: wp.float32):
    """Return an sRGB value as a byte."""
    x = wp.clamp(linear, 0.0, 1.0)
    value = 12.92 * x
    if x > 0.0031308:
        value = 1.055 * wp.pow(x, 1.0 / 2.4) - 0.055
    return wp.uint8(255.0 * value + 0.5)


@wp.kernel
def develop(
    even: wp.array3d(dtype=wp.vec3),
    slots: wp.array3d(dtype=wp.int32),
    moments: wp.array2d(dtype=wp.mat33),
    sums: wp.vec3,
    pixels: wp.array4d(dtype=wp.uint8),
):
    """Add up what the nine pixels around give to the filter of each one, and code it."""
    image, row, column = wp.tid()
    colour = wp.vec3(0.0)
    for dy in range(3):
        for dx in range(3):
            slot = slots[image, row + dy, column + dx]
            # of a neighbour above, the weights are those of a pixel below it
            if slot < 0:
                colour += sums[2 - dy] * sums[2 - dx] * even[image, row + dy, column + dx]
            else:
                moment = moments[slot, 2 - dy]
                colour += moment[2 - dx]
    pixels[image, row, column, 0] = coded(colour[0])
    pixels[image, row, column, 1] = coded(colour[1])
    pixels[image, row, column, 2] = coded(colour[2])
