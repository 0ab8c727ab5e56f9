"""Weights of the facts that make a guess sure, in the order of `sureness.py`, fitted by the laboratory."""

GUESS = (
    1.025,  # bias
    0.883,  # logit of the model's probability
    -0.021,  # agrees
    2.217,  # agrees, and there is no other
    -1.017,  # one other word
    -0.960,  # other words
    -0.567,  # no such word
    0.200,  # stands in the file
    0.581,  # usual
    1.172,  # counted
    -0.090,  # followed
    -0.189,  # refuted
    -0.816,  # letters 0
    -0.407,  # letters 1
    0.065,  # letters
    -0.046,  # size
    -0.065,  # expected
    0.140,  # expected, and agrees
    -0.138,  # start of line
    0.055,  # import
    0.379,  # new name
    -0.097,  # attribute
    0.074,  # argument
    -0.251,  # value
    0.135,  # number
    -0.014,  # string
    -0.082,  # docstring
    -0.117,  # comment
    0.055,  # elsewhere
)
WORD = (
    -3.510,  # bias
    0.138,  # logit of the model's probability
    -0.097,  # logit of the rival's sureness
    -0.281,  # only one
    -1.079,  # log longer
    2.335,  # share
    0.434,  # log times
    -0.241,  # nearest
    -1.646,  # is word
    0.119,  # letters
    0.078,  # letters 2
    0.077,  # size
    0.973,  # refuted
    -0.135,  # expected
    0.173,  # start of line
    -0.107,  # import
    -0.284,  # new name
    -0.346,  # attribute
    0.735,  # argument
    1.334,  # value
    0.000,  # number
    -0.781,  # string
    -0.282,  # docstring
    -0.688,  # comment
    0.247,  # elsewhere
)
