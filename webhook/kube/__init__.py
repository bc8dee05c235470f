"""Asks and tells the cluster: the real `Lookups` and `Accounts`, Events and the reconcile report.

Called by the webhook's start; the decision and the patch never see it. Objects stay plain JSON:
a typed model drops the fields that it does not know. The only part that imports `kubernetes`.
"""
