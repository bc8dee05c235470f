"""Tests of `collector.intake`."""
