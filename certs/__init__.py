"""Makes and rotates the webhook's TLS certificates.

Imports none of our other packages. Nothing is implemented here yet.
"""
