"""Checking labels against what can be retrieved today."""
