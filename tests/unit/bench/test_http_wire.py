"""Requests and answers as bytes."""

from tests.bench.http_wire import Address, Answer, post, whole_answer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-type: application/json\r\n\r\n"


def test_a_request_says_how_long_its_body_is() -> None:
    assert post("/a", {"b": 1}, authorization="Agent t") == (
        b"POST /a HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nauthorization: Agent t\r\n"
        b'content-length: 7\r\n\r\n{"b":1}'
    )


def test_an_answer_is_whole_when_all_of_its_body_is_there() -> None:
    assert whole_answer(HEAD[:20]) is None
    assert whole_answer(HEAD + b"{") is None
    assert whole_answer(HEAD + b"{}") == Answer(200, b"{}")


def test_an_answer_may_have_no_body() -> None:
    assert whole_answer(b"HTTP/1.1 204 No Content\r\n\r\n") == Answer(204, b"")


def test_an_address_is_taken_from_a_url() -> None:
    assert Address.of("http://127.0.0.1:8080/x") == Address("127.0.0.1", 8080)
