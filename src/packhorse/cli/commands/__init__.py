"""The commands of the terminal: one module per command or group."""
