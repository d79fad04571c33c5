"""A service that says what none may: `python -m tests.support.talkative lorebus_gateway`, with a text of its own.

It stands in for one that has gone wrong, so that a test can see that this is found.
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final

SAYS_VARIABLE: Final = "TALKATIVE_SAYS"
MEASURES_VARIABLE: Final = "TALKATIVE_MEASURES"


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = os.environ.get(MEASURES_VARIABLE, "").encode() if self.path == "/metrics" else b"ready"
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - As its parent's.
        """Say nothing but what is to be said."""


if __name__ == "__main__":
    sys.stdout.write(os.environ.get(SAYS_VARIABLE, "") + "\n")
    sys.stdout.flush()
    HTTPServer(("127.0.0.1", int(os.environ["LOREBUS_HTTP_PORT"])), _Answers).serve_forever()
