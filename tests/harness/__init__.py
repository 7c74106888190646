"""Real servers for the suite: PostgreSQL and Valkey from their wheels."""
