# SPDX-License-Identifier: Apache-2.0
"""Chance, and what is held out of the training.

All modules draw from `rng`, so one seed fixes a whole data set, down to the order of the draws. What is held
out is decided by a hash of the text, never by chance: it is the same for each seed."""
import contextlib
import random
import zlib

rng = random.Random()


class Mode:
    """Whether values and names of tools are drawn for an evaluation; else for the training."""
    evaluation = False


@contextlib.contextmanager
def evaluation():
    """Inside this context only held-out values are drawn."""
    Mode.evaluation = True
    try:
        yield
    finally:
        Mode.evaluation = False


def chance(probability):
    """True with this probability."""
    return rng.random() < probability


def weighted(options, weights):
    """One of the options, drawn by weights."""
    return rng.choices(options, weights)[0]


def is_held_out(text, share):
    """Whether a text is one of the 1 in `share` that only the evaluation has."""
    return zlib.crc32(text.encode()) % share == 0


def allowed(draw, tag, share=8):
    """Draws until the value is one of the training's, or one of the evaluation's in that mode."""
    while True:
        value = draw()
        if is_held_out(tag + value, share) == Mode.evaluation:
            return value


def number_of_digits(digits):
    """A whole number with this many digits."""
    if digits == 1:
        return rng.randint(0, 9)
    return rng.randint(10 ** (digits - 1), 10 ** digits - 1)
