"""Weights of the facts that make a guess sure, in the order of `sureness.py`, fitted by the laboratory."""

GUESS = (
    0.160,  # bias
    0.855,  # logit of the model's probability
    0.708,  # agrees
    2.249,  # agrees, and there is no other
    -0.364,  # one other word
    -0.746,  # other words
    0.132,  # no such word
    0.048,  # followed
    0.000,  # letters 0
    0.270,  # letters 1
    0.051,  # letters
    -0.040,  # size
    0.215,  # start of line
    0.158,  # import
    -0.562,  # new name
    -0.187,  # attribute
    0.327,  # argument
    0.199,  # value
    -0.321,  # number
    -0.083,  # string
    -0.096,  # docstring
    0.281,  # comment
    0.069,  # elsewhere
)
WORD = (
    -3.129,  # bias
    0.137,  # logit model
    -0.091,  # logit rival
    1.125,  # only one
    -0.140,  # log longer
    1.512,  # share
    -0.064,  # log times
    0.140,  # nearest
    -0.977,  # is word
    0.143,  # letters
    0.193,  # letters 2
    0.058,  # size
    0.301,  # start of line
    0.563,  # import
    -0.266,  # new name
    0.628,  # attribute
    0.044,  # argument
    -0.605,  # value
    0.000,  # number
    -0.236,  # string
    -0.157,  # docstring
    -0.669,  # comment
    0.397,  # elsewhere
)
