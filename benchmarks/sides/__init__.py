"""The sides of a comparison: Packhorse and its peers, each run in an environment of its own, all reported alike.

Nothing here imports from the rest of the project, and only ``packhorse`` imports Packhorse.
"""
