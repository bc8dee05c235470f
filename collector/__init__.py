"""The sidecar of each Ray pod: takes Ray's events, tails its logs, snapshots its dashboard.

Everything goes to object storage through `storage`; nothing here knows the shape of Ray's
event bodies beyond the envelope, so that new event types flow through. Never imports the
history server.
"""
