"""Weights of the facts that make a guess sure, in the order of `sureness.py`, fitted by the laboratory."""

GUESS = (
    1.200,  # bias
    0.859,  # logit of the model's probability
    -0.225,  # agrees
    2.286,  # agrees, and there is no other
    -1.220,  # one other word
    -1.111,  # other words
    -0.606,  # no such word
    0.274,  # stands in the file
    0.593,  # usual
    1.021,  # counted
    -0.149,  # followed
    -0.201,  # refuted
    -1.114,  # letters 0
    -0.677,  # letters 1
    0.043,  # letters
    -0.050,  # size
    -0.138,  # expected
    0.619,  # expected, and agrees
    -0.161,  # start of line
    0.150,  # import
    0.095,  # new name
    0.019,  # attribute
    0.140,  # argument
    -0.236,  # value
    -0.052,  # number
    0.052,  # string
    0.011,  # docstring
    -0.128,  # comment
    0.110,  # elsewhere
)
WORD = (
    -2.950,  # bias
    0.128,  # logit of the model's probability
    -0.078,  # logit of the rival's sureness
    -0.274,  # only one
    -0.966,  # log longer
    2.066,  # share
    0.270,  # log times
    -0.048,  # nearest
    -1.670,  # is word
    0.102,  # letters
    0.013,  # letters 2
    0.056,  # size
    1.080,  # refuted
    -0.104,  # expected
    0.157,  # start of line
    -0.016,  # import
    -0.514,  # new name
    0.490,  # attribute
    0.823,  # argument
    0.825,  # value
    0.000,  # number
    -0.606,  # string
    -0.422,  # docstring
    -0.735,  # comment
    -0.002,  # elsewhere
)
