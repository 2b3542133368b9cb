"""Clusters: live retrieval on many machines, with the numbers of one."""
