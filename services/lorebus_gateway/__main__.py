"""`python -m lorebus_gateway`: the gateway until SIGTERM."""

import uvloop

from lorebus_gateway.app import serve
from lorebus_gateway.settings import GatewaySettings
from lorebus_kit.heap import settle_heap
from lorebus_kit.logs import configure_logs
from lorebus_kit.settings import load_settings
from lorebus_kit.tracing import traced_process


def main() -> None:
    """Run the gateway; a wrong setting ends it at once with exit code 2."""
    settings = load_settings(GatewaySettings)
    configure_logs("gateway", settings.log_level)
    settle_heap()
    with traced_process("gateway", settings):
        uvloop.run(serve(settings))


if __name__ == "__main__":
    main()
