"""One stream of events, logs and snapshots from what any collector stored.

`locate` finds a session in the trees of KubeRay's generations A, B, C- and C and in ours, by
listing. `events`, `logs` and `snapshots` read what it found, in bounded memory; damage is
counted and never ends the reading. `compiling` and `sessions` read sessions with it, `api` reads
logs, `catalogue` takes its rules of a session's state. It knows nothing of the shape of Ray's
events, of SQLite or of HTTP; of the server it imports `folding`'s states only.
"""
