"""Children: tasks that one agent hands to another, each with a conversation of its own."""
