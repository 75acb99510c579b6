"""How fast the planner is: ``python -m benchmarks`` measures and prints one table."""
