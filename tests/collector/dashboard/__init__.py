"""Tests of `collector.dashboard`."""
