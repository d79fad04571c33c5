import socket

from lorebus_ops.ports import accepts_connections, free_ports


def test_free_ports_are_different_and_none_is_ephemeral() -> None:
    ports = free_ports(50)

    assert len(set(ports)) == 50
    assert all(10_000 <= port <= 32_767 for port in ports)


def test_a_port_accepts_connections_while_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert accepts_connections(port)

    assert not accepts_connections(port)
