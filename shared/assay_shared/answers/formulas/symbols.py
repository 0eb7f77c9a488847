"""Unicode characters, and their spelling in LaTeX or ASCII."""

import re
import unicodedata

#: Marks of approval; they do not change an answer.
_TICKS = "✅✔✓☑🎉🎯👍\ufe0f"
_HYPHENS = "−–‐‑﹣"
_FRACTIONS = {
    **{"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5)},
    **{"⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅐": (1, 7), "⅛": (1, 8), "⅜": (3, 8)},
    **{"⅝": (5, 8), "⅞": (7, 8), "⅑": (1, 9), "⅒": (1, 10)},
}
_COMMANDS = {
    **dict.fromkeys("×·⋅∙∗", r"\cdot "),
    **dict.fromkeys("≤⩽≦", r"\le "),
    **dict.fromkeys("≥⩾≧", r"\ge "),
    "÷": r"\div ",
    "π": r"\pi ",
    "∞": r"\infty ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "±": r"\pm ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∈": r"\in ",
    "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}",
    "ℚ": r"\mathbb{Q}",
    "ℕ": r"\mathbb{N}",
    "ℂ": r"\mathbb{C}",
    "∖": r"\setminus ",
    "∧": r"\wedge ",
    "∨": r"\vee ",
    "¬": r"\neg ",
    "≡": r"\equiv ",
    "∠": r"\angle ",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "⌊": r"\lfloor ",
    "⌋": r"\rfloor ",
    "⌈": r"\lceil ",
    "⌉": r"\rceil ",
    "…": r"\ldots ",
    "α": r"\alpha ",
    "β": r"\beta ",
    "θ": r"\theta ",
    "λ": r"\lambda ",
}
#: Full-width forms and their ASCII characters, except for forms that ASCII would read as commands
#: or as a factorial.
_FULL_WIDTH = {
    chr(code): chr(code - 0xFEE0)
    for code in range(0xFF01, 0xFF5F)
    if chr(code) not in "！？＄＼｛｝"
}
_SAME = {
    **dict.fromkeys(_HYPHENS, "-"),
    **_FULL_WIDTH,
    "｛": r"\{",
    "｝": r"\}",
    "⁄": "/",
    "∕": "/",
    "∶": ":",
    "∣": "|",
    "º": "°",
    "µ": "μ",
    "Ω": "Ω",
    # The marks used by `latex` itself.
    **dict.fromkeys("\ue000\ue001\ue002", "\ufffd"),
}


def _mathematical_letters() -> dict[str, str]:
    """Return ASCII or LaTeX for letters and digits in mathematical fonts: 𝑥, 𝟑, 𝜋."""
    found = {}
    for code in range(0x1D400, 0x1D800):
        letter = unicodedata.normalize("NFKC", chr(code))
        if letter.isascii() or letter in _COMMANDS:
            found[chr(code)] = _COMMANDS.get(letter, letter)
    return found


_CHARACTERS = str.maketrans(
    {
        **_COMMANDS,
        **_SAME,
        **_mathematical_letters(),
        **{sign: rf"\frac{{{top}}}{{{bottom}}}" for sign, (top, bottom) in _FRACTIONS.items()},
    }
)
_RAISED = dict(
    zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵃᵇᶜᵈᵉʰᵏᵐᵖʳˢᵗˣʸᶻ", "0123456789+-=()niabcdehkmprstxyz", strict=True)
)
_LOWERED = dict(
    zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜₓ", "0123456789+-=()aehijklmnoprstx", strict=True)
)
_NORMAL = str.maketrans(_RAISED | _LOWERED)
_RAISED_RUN = re.compile(f"[{''.join(_RAISED)}]++")
_LOWERED_RUN = re.compile(f"[{''.join(_LOWERED)}]++")
#: ³⁄₄
_RAISED_FRACTION = re.compile("([⁰¹²³⁴-⁹]{1,9})[⁄/∕]([₀-₉]{1,9})")
#: A root takes all of the number after it; √4! is ambiguous. The digit of ³√8 is not a power.
_ROOT = re.compile(r"(?:(?<![\w)}\]⁰¹²³⁴-⁹])([²³⁴-⁹])√|([∛∜√]))(?:\s?(\d++(?:\.\d++)?+)(?!\s?!))?+")
_INDICES = {"√": "2", "∛": "3", "∜": "4"}


def in_ascii(text: str) -> str:
    """Return the text with other characters replaced by LaTeX or ASCII of the same meaning."""
    if text.isascii():
        return text
    text = text.strip(f"{_TICKS} ") or text
    text = _RAISED_FRACTION.sub(_fraction, text)
    text = _ROOT.sub(_root, text)
    text = _RAISED_RUN.sub(lambda found: f"^{{{found.group().translate(_NORMAL)}}}", text)
    text = _LOWERED_RUN.sub(lambda found: f"_{{{found.group().translate(_NORMAL)}}}", text)
    return text.translate(_CHARACTERS)


def _fraction(found: re.Match[str]) -> str:
    top, bottom = (group.translate(_NORMAL) for group in found.groups())
    return rf"\frac{{{top}}}{{{bottom}}}"


def _root(found: re.Match[str]) -> str:
    index = found[1].translate(_NORMAL) if found[1] else _INDICES[found[2]]
    command = r"\sqrt" if index == "2" else rf"\sqrt[{index}]"
    return f"{command}{{{found[3]}}}" if found[3] else f"{command} "
