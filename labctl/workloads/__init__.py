"""Benchmark tools: parameters to steps, lint and estimates."""
