"""Tools that come from servers: their names, their schemas, and what became of them."""
