"""Who may read what; every route passes here.

`historyserver.web.request_cycle` asks the policy before every request. There is one policy now,
`OpenPolicy`; a later one (tokens, OIDC, namespaces) takes its place without any route knowing. A
response whose request was not asked about is never sent: it becomes an error.

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
