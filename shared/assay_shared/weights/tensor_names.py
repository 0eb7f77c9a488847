"""Tensors of a checkpoint in an error's words."""


def tensor_told(told: object) -> str:
    """Return a tensor's name; of a mismatch, its shape and the expected one.

    `told` is an entry of the loading report of `from_pretrained`.
    """
    if not isinstance(told, tuple) or len(told) != 3:
        return str(told)
    name, found, expected = told
    return f"{name} has the shape {[*found]}, and config.json expects {[*expected]}"
