"""One file a subcommand; cli.py lists them."""
