"""What GitHub gives and takes: workflow commands, outputs, discovery."""
