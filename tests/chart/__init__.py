"""Tests of the Helm chart, and the generators of its schema and README."""
