"""Rules of the area `tensors`."""
