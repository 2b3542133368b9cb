"""What to judge next, and when enough is judged."""
