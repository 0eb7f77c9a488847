"""Whether an answer says the same as a reference: one implementation for judge and verifiers.

`extraction` finds the answer in a text, of several boxes `joined_boxes`. `latex` writes it plainly:
`symbols` for Unicode, `typed` for ASCII, and `styles` drops its fonts. `unit_table` has the known
units. `numbers`, `units` and `quantity` read a number with its unit, `sets` sets of real numbers,
`structure` lists, intervals, sets, matrices and relations, `words` texts, `choice` the option of a
multiple choice. `formula` writes formulas without doubt, and `proof` proves two of them equal, with
math-verify. `equality` puts them together.
"""
