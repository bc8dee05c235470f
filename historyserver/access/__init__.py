"""Who may read what; every route passes here.

`Guard` runs before every request and asks the policy. There is one policy now, `OpenPolicy`;
a later one (tokens, OIDC, namespaces) takes its place without any route knowing. A response
whose request did not pass the guard is never sent: `Guard.confirm` turns it into an error.

Imports nothing of the server but the selection, and no web framework.
"""

from __future__ import annotations

from historyserver.access.policy import (
    AccessRequest,
    Decision,
    DenyPolicy,
    OpenPolicy,
    Policy,
    Purpose,
)

__all__ = ["AccessRequest", "Decision", "DenyPolicy", "OpenPolicy", "Policy", "Purpose"]
