"""The mutating admission webhook that adds a collector to Ray pods.

Imports none of our other packages. Nothing is implemented here yet.
"""
