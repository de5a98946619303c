"""Rules of the area `files`."""
