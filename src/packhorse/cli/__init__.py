"""The command line: what people do with an app from a terminal."""
