"""Asks Ray's live dashboard for what events and logs cannot rebuild, and judges the answers.

Called by `collector.lifecycle`; what is kept goes to a sink that the caller gives, so nothing
here knows of storage's upload queue. Must not import intake, journal, tails or shipping.
"""
