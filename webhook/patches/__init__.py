"""Patches: a pod and settings in, the pod with its collector out. Pure functions.

One module per concern (`volume`, `event_env`, `hook`, `sidecar`, `security`, ...); `patching`
puts them together, `operations` makes the RFC 6902 patch and `self_check` has the last word.
Called by the admission and by `webhook inject`. Imports no web framework and no Kubernetes
client.
"""

from webhook.patches.patching import Patched, patched
from webhook.patches.refusal import PatchRefusedError

__all__ = ["PatchRefusedError", "Patched", "patched"]
