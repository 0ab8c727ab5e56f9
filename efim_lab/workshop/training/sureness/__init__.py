"""Fits how sure a suggestion is to what its facts say: the weights of `efim_ls/completion/suggestions`."""
