"""The store on PostgreSQL: one function per hot verb."""
