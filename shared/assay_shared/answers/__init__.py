"""Whether an answer says the same as a reference: one implementation for judge and verifiers.

`extraction` finds the answer in a text. `latex` writes it plainly. `numbers`, `units` and
`quantity` read a number with its unit, `structure` lists, intervals, sets, matrices and relations,
`words` texts, `choice` the option of a multiple choice. `formula` proves two formulas equal, with
math-verify. `equality` puts them together.
"""
