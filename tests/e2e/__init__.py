"""Real pods: the chart on a one-node Kubernetes, KubeRay, real Ray, and the history afterwards."""
