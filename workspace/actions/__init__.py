"""Every write to this app's tables, one keyword-only function each."""
