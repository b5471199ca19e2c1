"""The store on Redis or Valkey: one Lua script per verb."""
