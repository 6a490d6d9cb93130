"""A worker without Blender, which dies and hangs on command. Run as a program: fake_worker.py LOG."""

import json
import os
import signal
import sys
import time
from pathlib import Path

from render.blender.protocol import GREETING

SEED_THAT_KILLS = 13
SEED_THAT_KILLS_ONCE = 14
SEED_THAT_IS_REFUSED = 15
SEED_THAT_TAKES_FOREVER = 16
SEED_THAT_IS_COMPLAINED_ABOUT = 17
SEED_THAT_HANGS_ONCE = 18
SEED_THAT_STOPS = 19


def main(folder: Path) -> None:
    """Answer every seed with its own number as the image; keep a file per process, named by its number."""
    print("Blender 4.5.0 says hello")  # noqa: T201 - the chatter of a Blender executable
    sys.stdout.flush()
    out = sys.stdout.buffer
    first = json.loads(sys.stdin.readline())
    if "FAKE_EARLY_DEATH" in os.environ and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    print("Error: no sound card", file=sys.stderr, flush=True)  # noqa: T201 - what Blender says at its start
    (folder / f"pid-{os.getpid()}").touch()
    about = {"blender": "0.0", "python": "3.11.0", "device": "cpu", "device_name": "fake"}
    answer(out, GREETING, {"about": about})
    for rendered, line in enumerate(sys.stdin, start=1):
        seed = json.loads(line)["seed"]
        if seed == SEED_THAT_STOPS:
            os.kill(os.getpid(), signal.SIGSTOP)
        if seed == SEED_THAT_TAKES_FOREVER or (seed == SEED_THAT_HANGS_ONCE and not (folder / "hung").exists()):
            (folder / "hung").touch()
            time.sleep(600)
        if seed == SEED_THAT_IS_REFUSED:
            answer(out, b"", {"error": "RenderError", "message": "no such scene"})
            continue
        if seed == SEED_THAT_KILLS or (seed == SEED_THAT_KILLS_ONCE and not (folder / "killed").exists()):
            (folder / "killed").touch()
            print("Error: out of cheese", file=sys.stderr, flush=True)  # noqa: T201
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == SEED_THAT_IS_COMPLAINED_ABOUT:
            print("Error: the denoiser is tired", file=sys.stderr, flush=True)  # noqa: T201
        growth = int(os.environ.get("FAKE_GROWTH", "0"))
        answer(out, b"", {"memory": 10**8 + rendered * growth}, str(seed).encode() * 30_000)
    if "FAKE_HANG" in os.environ:
        time.sleep(600)
    if "FAKE_CRASH" in os.environ:
        os.kill(os.getpid(), signal.SIGSEGV)
    del first


def answer(out, start, header, body=b""):
    out.write(start + json.dumps({**header, "size": len(body)}).encode() + b"\n" + body)
    out.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
