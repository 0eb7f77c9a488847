"""Comparison of an answer with a reference: the same code for judge and verifiers.

`extraction` finds the answer in a text, and `joined_boxes` joins several boxes. `latex` rewrites
the answer as plain text: `symbols` for Unicode, `typed` for ASCII, and `styles` drops its fonts.
`unit_table` has the known units. `numbers`, `units` and `quantity` read a number with its unit,
`sets` sets of real numbers, `structure` lists, intervals, sets, matrices and relations, `words`
texts, `choice` the option of a multiple choice. `formula` rewrites formulas unambiguously, and
`proof` proves two formulas equal with math-verify. `equality` combines all of these.
"""
