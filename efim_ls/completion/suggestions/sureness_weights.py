"""Weights of the facts that make a guess sure, in the order of `sureness.py`, fitted by the laboratory."""

GUESS = (
    0.392,  # bias
    0.790,  # logit of the model's probability
    0.452,  # agrees
    2.140,  # agrees, and there is no other
    -0.454,  # one other word
    -0.417,  # other words
    0.241,  # no such word
    0.243,  # stands in the file
    0.551,  # usual
    1.148,  # counted
    0.082,  # followed
    0.020,  # refuted
    -0.244,  # letters 0
    0.078,  # letters 1
    -0.004,  # letters
    -0.085,  # size
    -0.257,  # expected
    0.077,  # expected, and agrees
    -0.023,  # start of line
    -0.022,  # import
    0.202,  # new name
    0.248,  # attribute
    0.068,  # argument
    -0.202,  # value
    0.048,  # number
    -0.143,  # string
    -0.183,  # docstring
    -0.053,  # comment
    0.059,  # elsewhere
)
WORD = (
    -2.625,  # bias
    0.147,  # logit of the model's probability
    -0.053,  # logit of the rival's sureness
    0.239,  # only one
    -1.205,  # log longer
    1.463,  # share
    0.362,  # log times
    -0.091,  # nearest
    -1.246,  # is word
    0.100,  # letters
    0.164,  # letters 2
    0.058,  # size
    0.983,  # refuted
    1.016,  # expected
    0.263,  # start of line
    -0.082,  # import
    0.003,  # new name
    -0.089,  # attribute
    0.387,  # argument
    0.747,  # value
    0.000,  # number
    -0.325,  # string
    -0.632,  # docstring
    -0.902,  # comment
    0.629,  # elsewhere
)
