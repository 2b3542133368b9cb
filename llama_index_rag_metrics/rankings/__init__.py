"""What was retrieved and what should have been, and the two brought together once."""
