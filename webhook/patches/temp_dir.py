"""Which folder is Ray's temporary root in a pod."""

from __future__ import annotations

import posixpath
import re

from webhook.overrides import TEMP_DIR, Overrides
from webhook.pod_parts import Part, start_options

DEFAULT = "/tmp/ray"  # noqa: S108 - Ray's own default

_OPTION = re.compile(r"""--temp-dir(?:=|\s+)("[^"]*"|'[^']*'|[^\s;&|]+)""")


def temp_dir(ray: Part, *, overrides: Overrides) -> tuple[str, str]:
    """The folder, and a warning or nothing.

    From `ray start`'s `--temp-dir`, else from the annotation, else Ray's default. A worker takes
    the head's folder over when its own command names none, which cannot be seen in its pod: for
    that the annotation is there, on the RayCluster.
    """
    options = start_options(ray, _OPTION)
    given = options[-1][1].strip("\"'") if options else overrides.get(TEMP_DIR)
    if not given:
        return DEFAULT, ""
    if not given.startswith("/") or "$" in given or "`" in given:
        fallback = overrides.get(TEMP_DIR)
        if fallback.startswith("/"):
            return posixpath.normpath(fallback), ""
        return DEFAULT, f"--temp-dir {given[:30]!r} is not a plain path; say it in {TEMP_DIR}"
    return posixpath.normpath(given), ""
