"""Clusters: stored rankings and live retrieval on many machines, to the bits of one."""
