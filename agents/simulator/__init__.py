"""A local model service: no language model, but the same HTTP path as a real one.

It speaks Chat Completions and Messages, follows small rules (`tour`) or scripts, keeps
a prefix cache, shows faults on request and records what it was sent and who hung up.
"""
