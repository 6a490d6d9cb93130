"""A server of files on this machine, which breaks off and refuses when it is told to."""

import http.server
import re
import threading

pause = threading.Event()  # never set: the tests replace time.sleep


class Server(http.server.ThreadingHTTPServer):
    """Serves files out of memory, as badly as it is told to.

    Attributes:
        files: contents by path.
        ranges: whether it knows ranges.
        cuts: for the coming requests, after how many bytes the connection breaks; None does not.
        statuses: for the coming requests, a status to refuse with; None does not.
        lengths: whether it tells how long a file is.
        drips: for the coming requests, seconds between one byte and the next; None sends all at once.
        slow_headers: how many of the coming answers have headers that drip in the same way.
        slow_sizes: how many of the coming answers come in chunks, the size of whose first drips.
        asked: (method, path, range) of every request so far.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.ranges, self.cuts, self.statuses, self.asked = {}, True, [], [], []
        self.lengths, self.drips = True, []
        self.slow_headers = self.slow_sizes = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/files"

    def gets(self):
        return [(path, asked) for method, path, asked in self.asked if method == "GET"]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def _answer(self, *, body):
        asked = self.headers.get("Range")
        self.server.asked.append((self.command, self.path.removeprefix("/files/"), asked))
        data = self.server.files.get(self.path.removeprefix("/files/"))
        status = self.server.statuses.pop(0) if body and self.server.statuses else None
        if data is None or status is not None:
            self.send_error(status or 404)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and self.server.ranges else 0
        if asked and start >= len(data) and self.server.ranges:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.server.slow_headers:
            self.server.slow_headers -= 1
            self.wfile.write(b"HTTP/1.0 200 OK\r\n")
            self._drip(b"X-Nothing: " + 100 * b"x", 0.05)
            return
        if body and self.server.slow_sizes:
            self.server.slow_sizes -= 1
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            self._drip(100 * b"0", 0.05)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if self.server.lengths:
            self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        drip = self.server.drips.pop(0) if body and self.server.drips else None
        if drip is not None:
            self._drip(data[start:], drip)
        elif body:
            cut = self.server.cuts.pop(0) if self.server.cuts else None
            self.wfile.write(data[start:] if cut is None else data[start : start + cut])

    def _drip(self, data, seconds):
        for k in range(min(40, len(data))):
            try:
                self.wfile.write(data[k : k + 1])
            except OSError:
                return  # whoever asked has seen enough
            pause.wait(seconds)

    def log_message(self, *args):
        pass
