"""What Ray is started with."""

from __future__ import annotations

import re

import pytest

from demo.progress import DemoError
from demo.ray_head import check_python


@pytest.mark.parametrize("path", ["/home/a b/bin/python", "/a:b/python", "/it's/python", "/$x/py"])
def test_python_that_ray_cannot_start_is_refused(path: str) -> None:
    """The message has the path and the way out."""
    with pytest.raises(DemoError, match=re.escape(f"({path}): put the environment elsewhere")):
        check_python(path)


@pytest.mark.parametrize("path", ["/srv/.venv-3.12/bin/python3", "/home/jürgen/数/bin/python"])
def test_python_in_an_ordinary_folder_is_taken(path: str) -> None:
    """Letters of every language are ordinary."""
    check_python(path)
