"""Rules of the area `engine`."""
