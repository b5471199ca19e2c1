"""Packhorse: all work that must not happen in the request, in one package."""
