"""Generate parts of the documentation from the code and from files outside of the docs."""
