"""``python -m leaderboard serve``: show the page in a browser."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ident3d.commandline import EXIT_OK
from leaderboard.board import DEFAULT_FOLDER, Board
from leaderboard.page import HTML_NAME, generate

__all__ = ["Serve", "server"]


@dataclass(frozen=True)
class Serve:
    """Serve the page on this machine, built again for every request, until Ctrl-C.

    Examples:
        python -m leaderboard serve
        python -m leaderboard serve --port 8080
    """

    board: Path = DEFAULT_FOLDER
    """The folder with the entries; the leaderboard's own by default."""
    port: int = 8000
    """The port on 127.0.0.1; 0 for any that is free."""

    def run(self) -> int:
        """Serve until interrupted."""
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"a port is a number from 0 to 65535, not {self.port}")
        Board.read(self.board)  # what is wrong with the folder shows here, and not at the first request
        with server(self.board, self.port) as serving:
            sys.stdout.write(f"http://127.0.0.1:{serving.server_port}/ (Ctrl-C ends)\n")
            sys.stdout.flush()
            serving.serve_forever()
        return EXIT_OK


def server(board: Path, port: int) -> ThreadingHTTPServer:
    """Return a server on 127.0.0.1 that gives the page of ``board`` and nothing else."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in ("/", f"/{HTML_NAME}"):
                self.send_error(404)
                return
            body = generate(Board.read(board))[HTML_NAME].encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing for each request."""

    return ThreadingHTTPServer(("127.0.0.1", port), Page)
