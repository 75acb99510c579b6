"""Commands that have modules of their own; the command line registers them."""
