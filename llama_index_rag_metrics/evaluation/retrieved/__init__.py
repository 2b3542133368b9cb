"""What was retrieved: nodes, what they stand for, where they lie; scored by each matcher."""
