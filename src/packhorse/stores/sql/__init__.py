"""Said once for both SQL stores: statements by name, parameters, rows, migrations."""
