"""Weights of the facts that make a guess sure, in the order of `sureness.py`, fitted by the laboratory."""

GUESS = (
    0.472,  # bias
    0.842,  # logit of the model's probability
    0.542,  # agrees
    1.853,  # agrees, and there is no other
    -0.406,  # one other word
    -0.829,  # other words
    0.109,  # no such word
    0.069,  # followed
    -0.191,  # letters 0
    0.034,  # letters 1
    0.016,  # letters
    -0.046,  # size
    -0.427,  # expected
    0.236,  # expected, and agrees
    0.067,  # start of line
    0.056,  # import
    -0.102,  # new name
    -0.061,  # attribute
    0.274,  # argument
    0.094,  # value
    -0.180,  # number
    -0.119,  # string
    -0.166,  # docstring
    0.070,  # comment
    0.067,  # elsewhere
)
WORD = (
    -2.697,  # bias
    0.164,  # logit of the model's probability
    -0.015,  # logit of the rival's sureness
    0.347,  # only one
    -0.514,  # log longer
    1.963,  # share
    0.112,  # log times
    0.101,  # nearest
    -1.564,  # is word
    0.169,  # letters
    0.243,  # letters 2
    0.070,  # size
    0.612,  # expected
    0.287,  # start of line
    0.040,  # import
    -0.526,  # new name
    0.202,  # attribute
    0.274,  # argument
    0.862,  # value
    0.000,  # number
    -0.253,  # string
    -0.458,  # docstring
    -1.024,  # comment
    0.595,  # elsewhere
)
