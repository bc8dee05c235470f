"""Tests of `collector.lifecycle`."""
