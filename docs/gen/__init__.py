"""What the documentation site makes of the code and of what stands outside of the docs."""
