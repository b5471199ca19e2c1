"""How work is run: knows the contract of the stores, but no store and no feature."""
