"""The process: which session is followed, what runs beside it, and the order of its end.

Called by `collector.cli`. The only package of the collector that knows all the others.
"""
