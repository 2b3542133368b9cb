"""Runs and qrels in and out: files of every usual format, and what other tools hold in memory."""
