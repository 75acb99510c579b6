"""Searches that try some plans instead of all, and that may choose figures besides the plan."""
