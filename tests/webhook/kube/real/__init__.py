"""All of it against a real kube-apiserver, with RBAC: no more rights than the chart gives."""
