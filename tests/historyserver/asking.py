"""A small HTTP client over a WSGI app, so that the prefix middleware is in the way as in life."""

from __future__ import annotations

from typing import Any

from werkzeug.test import Client, TestResponse

from historyserver.web.app import WebApp
from tests.historyserver.hand_made import PREFIX


class Asker:
    """Asks the app for paths; cookies are kept between requests as a browser keeps them."""

    def __init__(self, app: WebApp) -> None:
        self.client = Client(app)

    def get(self, path: str, **kwargs: Any) -> TestResponse:
        """A GET of an absolute path."""
        return self.client.get(path, **kwargs)

    def session(self, path: str, **kwargs: Any) -> TestResponse:
        """A GET below the sample session's prefix."""
        return self.client.get(PREFIX + path, **kwargs)

    def json(self, path: str, **kwargs: Any) -> Any:
        """The JSON of a 200 below the sample session's prefix."""
        response = self.session(path, **kwargs)
        assert response.status_code == 200, response.get_data(as_text=True)
        return response.get_json()


def refused(response: TestResponse, code: str, *, status: int = 400) -> str:
    """Check that an answer is an error in the one shape; give its text."""
    body = response.get_json()
    assert response.status_code == status, response.get_data(as_text=True)
    assert body["result"] is False
    assert body["data"]["error"] == {"code": code, "detail": body["msg"]}
    assert "Traceback" not in response.get_data(as_text=True)
    return str(body["msg"])
