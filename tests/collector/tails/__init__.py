"""Tests of `collector.tails`."""
