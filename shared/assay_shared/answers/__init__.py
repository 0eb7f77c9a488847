"""Whether an answer says the same as a reference: one implementation for judge and verifiers.

`extraction` finds the answer in a text. `latex` writes it plainly, and `styles` drops its fonts.
`numbers`, `units` and `quantity` read a number with its unit, `sets` sets of real numbers,
`structure` lists, intervals, sets, matrices and relations, `words` texts, `choice` the option of a
multiple choice. `formula` writes formulas without doubt, and `proof` proves two of them equal, with
math-verify. `equality` puts them together.
"""
