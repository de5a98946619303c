"""Rules of the area `container`."""
