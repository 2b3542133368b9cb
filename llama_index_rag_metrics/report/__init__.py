"""Reports: what was scored, for people. Only here are numbers rounded, and only here is printed."""
