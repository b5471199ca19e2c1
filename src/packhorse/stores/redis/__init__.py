"""The store on Redis 6.2 and newer, and on Valkey."""
