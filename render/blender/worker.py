"""The program of a worker process: scenes come in, images go out.

The parent starts it as ``python -P -m render.blender.worker``, or hands this file to a Blender executable, writes one
JSON line with the settings and then one for every image to its standard input, and reads answers from its standard
output: a JSON line, followed by as many bytes as its "size" says. The first answer starts with ``GREETING``, so that
whatever a program printed before can be skipped.

Only the standard library, NumPy and bpy are needed here.
"""

import json
import os
import shutil
import struct
import sys
import traceback
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

if __name__ == "__main__" and not __package__:  # Blender runs this file as a script outside of its package
    sys.path[:] = [str(Path(__file__).resolve().parents[2]), *(p for p in sys.path if p != str(Path(__file__).parent))]

from ident3d.codec import from_json, to_json
from ident3d.doctor.libraries import explain_bpy
from render.blender.protocol import GREETING, BlenderMissingError, RenderError, Settings

__all__ = ["main", "memory", "pixels_only"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CRITICAL_CHUNKS = frozenset({b"IHDR", b"PLTE", b"IDAT", b"IEND"})
_FRAME_BYTES = 12  # length, kind and checksum of a chunk


def main() -> None:
    """Serve the parent until it closes the standard input, then exit at once."""
    requests, answers = _take_pipes()
    try:
        _serve(requests, answers)
    except BrokenPipeError:
        pass  # the parent is gone
    except Exception:  # noqa: BLE001 - whatever it is, the parent shows the traceback
        traceback.print_exc()
        os._exit(1)
    # Blender's shutdown is skipped: it is slow, and some releases crash in it.
    os._exit(0)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return the pipes to the parent, for this module alone; all other output to the standard output is discarded."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 0)
    os.dup2(silence, 1)
    os.close(silence)
    return requests, answers


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    first = json.loads(requests.readline())
    folder = Path(first["folder"])
    try:
        _render(from_json(Settings, first["settings"]), folder, requests, answers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # the parent does so too, unless it was killed


def _render(settings: Settings, folder: Path, requests: BinaryIO, answers: BinaryIO) -> None:
    try:
        blender = _load(settings, folder)
    except RenderError as error:
        answers.write(GREETING)
        _answer(answers, {"error": type(error).__name__, "message": str(error)})
        return
    from ident3d.scene.scene import Scene  # its package needs NumPy, which a Python without bpy may lack

    answers.write(GREETING)
    _answer(answers, {"about": to_json(blender.about)})
    for line in requests:
        request = json.loads(line)
        try:
            image = blender.render(Scene.from_json(request["scene"]), request["seed"])
        except (RenderError, ValueError, RuntimeError, OSError) as error:
            _answer(answers, {"error": "RenderError", "message": f"{type(error).__name__}: {error}"})
        else:
            _answer(answers, {"memory": memory()}, pixels_only(image))


def _load(settings: Settings, folder: Path) -> Any:
    try:
        from render.blender.cycles import Blender  # imports bpy
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == "bpy"
        raise BlenderMissingError(explain_bpy(str(error), is_missing=is_missing)) from error
    return Blender(settings, folder)


def _answer(answers: BinaryIO, header: dict[str, Any], body: bytes = b"") -> None:
    answers.write(json.dumps({**header, "size": len(body)}).encode() + b"\n" + body)
    answers.flush()


def pixels_only(png: bytes) -> bytes:
    """Return a PNG with only its critical chunks, so that equal pixels give equal bytes.

    Blender writes the date and the render time into every image.

    Raises:
        RenderError: if the bytes are not a whole PNG.
    """
    return _SIGNATURE + b"".join(chunk for kind, chunk in _chunks(png) if kind in _CRITICAL_CHUNKS)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not png.startswith(_SIGNATURE):
        raise RenderError(f"a worker's image is not a PNG: its {len(png)} bytes begin with {png[:8]!r}")
    position, kind = len(_SIGNATURE), b""
    while kind != b"IEND":
        length = int.from_bytes(png[position : position + 4], "big")
        chunk = png[position : position + _FRAME_BYTES + length]
        kind = chunk[4:8]
        if len(chunk) < _FRAME_BYTES + length or struct.unpack(">I", chunk[-4:])[0] != zlib.crc32(chunk[4:-4]):
            raise RenderError(f"a worker's image is damaged at byte {position} of {len(png)}")
        yield kind, chunk
        position += len(chunk)


def memory() -> int:
    """Return the resident memory of this process in bytes; 0 where it is unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
