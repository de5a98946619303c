"""What the config declares, what the headers show, and where the two differ.

One way through: `reading.read_declaration` says what is declared, `expected.expected_tensors`
what a scheme must store, `compare.compare` where the tensors of one module differ from that.
"""
