"""Statistics: arrays in, numbers out. Nothing here depends on scores or systems."""
