"""How each language writes dates; Django looks them up by its code."""
