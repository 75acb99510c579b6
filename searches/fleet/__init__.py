"""A deployment for several demands at once: how many instances of which shape, role and pool.

``columns`` finds what one instance can do, ``yard`` where instances may stand, ``cuts`` how much of
a demand a set of instances serves; ``solver`` holds the CP-SAT model, and ``search`` asks it.
"""
