import pytest

from lorebus_ops.errors import StackError
from lorebus_ops.local_services import choose_port


def test_the_gateway_has_the_port_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOREBUS_HTTP_PORT", "18080")

    assert choose_port("gateway") == 18_080
    assert choose_port("save") != 18_080


@pytest.mark.parametrize("wanted", ["http", "0", "65536", "-1"])
def test_what_is_no_port_is_refused_with_the_variables_name(
    monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    monkeypatch.setenv("LOREBUS_HTTP_PORT", wanted)

    with pytest.raises(StackError, match="LOREBUS_HTTP_PORT: must be a port between 1 and 65535"):
        choose_port("gateway")
