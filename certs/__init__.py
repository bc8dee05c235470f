"""Makes and rotates the webhook's TLS certificates.

`certs run` stands beside each webhook: it keeps a CA and a leaf in a Secret, their CA in the
webhook configurations, and the leaf's files in a folder that the webhook serves from. What is
due is decided by `rotation` (pure); `keeper` does it; everything that touches the cluster goes
through `cluster.Cluster`. Imports none of our other packages.
"""
