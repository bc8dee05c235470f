"""Brings the journal, the tails and the dashboard's answers of each session to storage.

Called by `collector.lifecycle`, one `SessionShipping` per (session, node). Never waits for
storage but at the end. Must not import intake: the journal is what they meet in.
"""
