"""Excerpts: text of other files in a prompt, and its token ids as the model's family reads several files.

The signatures in front are the same for all of a workspace's files, and stay for a day or until the index is rebuilt.
Similar code is looked up where the model was unsure. A part that does not fit is left out whole. Where `other_files`
is off, which it is by rule for most models, nothing of this is made.
"""
