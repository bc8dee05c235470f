"""Tests of `collector.journal`."""
