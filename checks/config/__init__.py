"""Rules of the area `config`."""
