"""HumanEval-Infilling: its tasks, and the sandbox that runs their programs."""
