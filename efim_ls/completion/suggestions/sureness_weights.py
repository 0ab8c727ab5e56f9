"""Weights of the facts that make a guess sure, in the order of `sureness.py`, fitted by the laboratory."""

GUESS = (
    0.425,  # bias
    0.832,  # logit of the model's probability
    0.557,  # agrees
    1.849,  # agrees, and there is no other
    -0.341,  # one other word
    -0.879,  # other words
    0.145,  # no such word
    0.065,  # followed
    -0.162,  # letters 0
    0.050,  # letters 1
    0.017,  # letters
    -0.047,  # size
    -0.334,  # expected
    0.228,  # expected, and agrees
    0.078,  # start of line
    -0.033,  # import
    -0.165,  # new name
    -0.034,  # attribute
    0.295,  # argument
    0.138,  # value
    -0.204,  # number
    -0.114,  # string
    -0.126,  # docstring
    0.074,  # comment
    0.093,  # elsewhere
)
WORD = (
    -2.603,  # bias
    0.179,  # logit of the model's probability
    0.003,  # logit of the rival's sureness
    0.263,  # only one
    -0.533,  # log longer
    1.891,  # share
    0.118,  # log times
    0.075,  # nearest
    -1.491,  # is word
    0.184,  # letters
    0.270,  # letters 2
    0.074,  # size
    0.437,  # expected
    0.237,  # start of line
    0.406,  # import
    -0.533,  # new name
    0.227,  # attribute
    0.214,  # argument
    0.768,  # value
    0.000,  # number
    -0.271,  # string
    -0.563,  # docstring
    -1.032,  # comment
    0.547,  # elsewhere
)
