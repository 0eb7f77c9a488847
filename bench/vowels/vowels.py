"""A reward that needs no knowledge: answers of random weights differ in it."""


def share_of_vowels(text):
    """Return the share of vowels among the characters of `text`."""
    return sum(character in "aeiouAEIOU" for character in text) / max(1, len(text))


def score(task, answers):
    """Return the share of vowels of each answer."""
    return [share_of_vowels(answer) for answer in answers]
