"""Webhook, certificates and chart with a real KubeRay operator and API server; without a node.

Pods stay Pending: what is looked at is what the operator, the controllers and the webhook made
of a user's manifest. Webhook and `certs` run as processes of this machine, under the accounts
and with the settings that the chart installed.
"""
