"""Tests of `collector.shipping`."""
