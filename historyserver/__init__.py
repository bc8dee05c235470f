"""Serves Ray's dashboard, its HTTP API and its CLI for clusters that are gone.

Reads what collectors (ours and KubeRay's) wrote through `storage`, compiles each session
once into an immutable SQLite file, and answers every request from that file. Never imports
the collector.
"""
