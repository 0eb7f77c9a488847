"""Short questions with their answer in the text; a judge decides.

Kinds of mistakes: `order` (the other thing's colour), `invented` (a colour not in the text).
"""

import random

from assay_trainer.data.synthetic.problem import Family, SyntheticProblem

_THINGS = ("boat", "car", "door", "hat", "lamp", "ring", "shoe", "wall", "cup", "bag")
_COLOURS = ("red", "blue", "green", "pink", "gold", "gray", "black", "white", "brown", "teal")


def colour_of(rng: random.Random) -> SyntheticProblem:
    things, colours = rng.sample(_THINGS, 2), rng.sample(_COLOURS, 3)
    asked = rng.randint(0, 1)
    said = ", ".join(f"the {t} is {c}" for t, c in zip(things, colours, strict=False))
    return SyntheticProblem(
        words=f"If {said}, what colour is the {things[asked]}?",
        gold=colours[asked],
        mistakes={"order": colours[1 - asked], "invented": colours[2]},
    )


FAMILIES: dict[str, Family] = {"colour_of": colour_of}
