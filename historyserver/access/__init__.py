"""Who may read what; every route passes here.

`web.request_cycle` asks the policy before every request. There is one policy now,
`OpenPolicy`; a later one (tokens, OIDC, namespaces) takes its place without any route knowing. A
response whose request was not asked about is never sent: it becomes an error.

`web` calls it. Imports nothing of the server but the selection, and no web framework.
"""

from __future__ import annotations

from historyserver.access.policy import (
    AccessRequest,
    Decision,
    OpenPolicy,
    Policy,
    Purpose,
)

__all__ = ["AccessRequest", "Decision", "OpenPolicy", "Policy", "Purpose"]
