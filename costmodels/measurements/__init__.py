"""A user's own step times: the table, the surfaces through it, and what looks wrong in it."""
