"""Tests of what asks and tells the cluster."""
