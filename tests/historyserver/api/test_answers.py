"""ETags, gzip and remembered bodies."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator

import flask
import pytest

from historyserver.api.answers import answer, etag_of, finish, recall
from historyserver.api.errors import ApiError, ErrorCode
from historyserver.http.answer_cache import BodyCache, StoredBody
from storage.backend import Backend
from tests.historyserver.asking import Asker
from tests.historyserver.hand_made import PREFIX, HandMade, app_of

PATH = "/timezone"


def asker(backend: Backend, made: HandMade) -> Asker:
    """A client of an app with that session."""
    return Asker(app_of(backend, made.opened()))


def test_a_poll_that_has_the_answer_gets_304_before_any_query(
    backend: Backend, hand_made: HandMade
) -> None:
    """Nothing is asked of the database: the file may even be gone."""
    opened = hand_made.snapshot(PATH, {"offset": "+01:00", "value": "x"}).opened()
    ask = Asker(app_of(backend, opened))
    first = ask.session(PATH)
    opened.compiled.close()
    opened.compiled.path.unlink()
    again = ask.session(PATH, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert "Content-Type" not in again.headers


def test_another_reader_gets_the_remembered_body(backend: Backend, hand_made: HandMade) -> None:
    """Made once, sent often."""
    opened = hand_made.snapshot(PATH, {"offset": "+01:00", "value": "x"}).opened()
    ask = Asker(app_of(backend, opened))
    first = ask.session(PATH)
    opened.compiled.close()
    opened.compiled.path.unlink()
    assert ask.session(PATH).data == first.data
    assert ask.session(PATH).content_type == first.content_type


def test_a_304_takes_less_than_two_milliseconds(backend: Backend, hand_made: HandMade) -> None:
    """The whole app in the way, the network not; median processor time of many."""
    ask = asker(backend, hand_made)
    headers = {"If-None-Match": ask.session(PATH).headers["ETag"]}
    times_s = []
    for _ in range(60):
        started_s = time.thread_time()
        ask.session(PATH, headers=headers)
        times_s.append(time.thread_time() - started_s)
    assert sorted(times_s)[len(times_s) // 2] < 0.002


def test_the_etag_knows_session_path_and_query() -> None:
    """Order of different names does not matter; of the same name it does (Ray's filters)."""
    base = etag_of("f1", "/x", [("a", "1"), ("b", "2")])
    assert etag_of("f1", "/x", [("b", "2"), ("a", "1")]) == base
    assert etag_of("f1", "/x", [("b", "2"), ("a", "1"), ("timeout", "30")]) == base
    others = [
        etag_of("f2", "/x", [("a", "1"), ("b", "2")]),
        etag_of("f1", "/y", [("a", "1"), ("b", "2")]),
        etag_of("f1", "/x", [("a", "1")]),
        etag_of("f1", "/x", [("a", "1b"), ("", "2")]),
    ]
    assert base not in others
    assert etag_of("f", "/x", [("k", "1"), ("k", "2")]) != etag_of(
        "f", "/x", [("k", "2"), ("k", "1")]
    )


def test_errors_have_no_etag_and_are_not_stored(backend: Backend, hand_made: HandMade) -> None:
    """A refusal must not be served to the next reader."""
    response = asker(backend, hand_made).session("/api/v0/logs")
    assert response.status_code == 400
    assert "ETag" not in response.headers
    assert response.headers["Cache-Control"] == "no-store"


def test_large_answers_are_compressed_when_the_client_takes_it(
    backend: Backend, hand_made: HandMade
) -> None:
    """And come as they are otherwise, from the same memory."""
    ask = asker(backend, hand_made.snapshot(PATH, {"value": "x" * 50_000}))
    squeezed = ask.session(PATH, headers={"Accept-Encoding": "gzip"})
    plain = ask.session(PATH)
    assert squeezed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert gzip.decompress(squeezed.data) == plain.data
    assert ask.session(PATH, headers={"Accept-Encoding": "gzip"}).data == squeezed.data
    assert "Accept-Encoding" in plain.headers["Vary"]
    refused = ask.session(PATH, headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers


def test_a_stream_is_compressed_on_the_way_and_never_held() -> None:
    """Timeline downloads may be hundreds of megabytes."""
    taken: list[int] = []

    def chunks() -> Iterator[bytes]:
        for number in range(100):
            taken.append(number)
            yield b"y" * 100_000

    app = flask.Flask("t")
    with app.test_request_context("/x", headers={"Accept-Encoding": "gzip"}):
        cache = BodyCache(max_bytes=1 << 30)
        response = answer(chunks())
        response = finish(response, cache=cache, etag='W/"1"', request=flask.request)
        assert taken == []
        body = b"".join(response.iter_encoded())
    assert gzip.decompress(body) == b"y" * 10_000_000
    assert cache.size_bytes == 0


def test_the_memory_of_bodies_is_bounded_and_the_least_used_go() -> None:
    """By bytes, not by number; a body that would fill it is not held."""
    cache = BodyCache(max_bytes=100)
    for name in "abcd":
        cache.put((name, False), StoredBody(b"x" * 25, ()))
    assert cache.get(("a", False)) is not None
    cache.put(("e", False), StoredBody(b"x" * 25, ()))
    assert cache.get(("b", False)) is None
    assert cache.get(("a", False)) is not None
    cache.put(("f", False), StoredBody(b"x" * 26, ()))
    assert cache.get(("f", False)) is None
    assert cache.size_bytes == 100


def test_head_has_the_headers_and_no_body(backend: Backend, hand_made: HandMade) -> None:
    """As Ray's proxy passes it on."""
    ask = asker(backend, hand_made)
    response = ask.client.head(PREFIX + PATH)
    assert response.status_code == 200
    assert response.data == b""
    assert response.headers["ETag"]


def test_an_api_error_can_never_be_404() -> None:
    """Ray's proxy would then show the local, empty cluster."""
    with pytest.raises(ValueError, match="404"):
        ApiError(ErrorCode.NOT_FOUND, "x", status=404)


def test_recall_takes_a_list_of_etags_and_a_star() -> None:
    """As HTTP has it."""
    app = flask.Flask("t")
    cache = BodyCache(max_bytes=10)
    for asked, status in (('W/"0", W/"1"', 304), ("*", 304), ('W/"2"', None), ("", None)):
        with app.test_request_context("/x", headers={"If-None-Match": asked}):
            response = recall(cache, etag='W/"1"', request=flask.request)
            assert (response.status_code if response is not None else None) == status
