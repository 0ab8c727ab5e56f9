"""How families of models were trained to infill: their markers, the order of the parts, and the ends of a text.

Everything specific to a family is data here. If a family's page and its tokenizer disagree, the tokenizer counts:
whether a text begins with a BOS is read from it (`Tokenizer.bos`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class FileFormat:
    """How a family was trained to see other files of a repository before the completed file.

    `separator` is the marker before the path of each file, or between files if the first has none (`leads` is false).
    `repository` is the marker before the repository's name, which stands first and ends as `end` says; empty if there
    is none. The path of the file that is completed stands before the prefix's marker, behind it, or nowhere.
    """

    separator: str
    repository: str = ""
    end: str = ""
    own_path: Literal["before prefix", "behind prefix", "nowhere"] = "nowhere"
    leads: bool = True


@dataclass(frozen=True)
class Family:
    """Names of markers, and how they stand around the parts of a prompt.

    The order is EFIM's, `prefix head suffix tail middle typed`, or the tail comes first: `suffix tail prefix head
    middle typed`; a family may have no middle. `lead` is the text that the family's own tokenizer put before the head
    in training. `ends` end a text although the config does not say so; so does `end_id`, which also distinguishes a
    model from others with the same markers, as the names of `folders` in its path do. Markers may be `spelled` as
    plain text if the tokenizer has no tokens for them. A model with `fragments` was trained to continue inside words.
    `files` is its format for other files; without one, or without its markers in the tokenizer, their paths are
    comments (`# path`).
    """

    name: str
    prefix: str
    suffix: str
    middle: str = ""
    tail_first: bool = False
    lead: str = ""
    ends: tuple[str, ...] = ()
    end_id: int | None = None
    folders: tuple[str, ...] = ()
    spelled: bool = False
    fragments: bool = False
    files: FileFormat | None = None

    @property
    def markers(self) -> tuple[str, ...]:
        """Names of the markers that the family has."""
        return tuple(name for name in (self.prefix, self.suffix, self.middle) if name)


FAMILIES = (
    # github.com/gty111/EFIM, benchmark/async_benchmark_humaneval.py: hole and end have changed places
    Family(
        "deepseek-efim",
        prefix="<｜fim▁begin｜>",
        suffix="<｜fim▁end｜>",
        middle="<｜fim▁hole｜>",
        end_id=32027,
        folders=("deepseek-coder-6.7b-enhance",),
        fragments=True,
    ),
    # The same file: the markers are written as text, which is one token each only where the tokenizer has them.
    Family(
        "llama-efim",
        prefix="<fim_prefix>",
        suffix="<fim_suffix>",
        middle="<fim_middle>",
        folders=("llama3.1-8b-enhance",),
        spelled=True,
        fragments=True,
    ),
    # huggingface.co/google/codegemma-2b: Qwen's names, and a separator of files that ends a text
    Family(
        "codegemma",
        prefix="<|fim_prefix|>",
        suffix="<|fim_suffix|>",
        middle="<|fim_middle|>",
        ends=("<|file_separator|>",),
        # ai.google.dev/gemma/docs/codegemma/prompt-structure: the separator stands between files
        files=FileFormat("<|file_separator|>", leads=False),
    ),
    # github.com/QwenLM/Qwen2.5-Coder (fill in the middle); Qwen3-Coder, Granite 4 and the embedded model, too
    Family(
        "qwen",
        prefix="<|fim_prefix|>",
        suffix="<|fim_suffix|>",
        middle="<|fim_middle|>",
        # arxiv.org/abs/2409.12186, figure 4
        files=FileFormat("<|file_sep|>", "<|repo_name|>", end="\n", own_path="before prefix"),
    ),
    # arxiv.org/abs/2510.05788 (suffix, prefix, middle), huggingface.co/JetBrains/Mellum-4b-base: StarCoder's names
    Family(
        "mellum",
        prefix="<fim_prefix>",
        suffix="<fim_suffix>",
        middle="<fim_middle>",
        tail_first=True,
        folders=tuple(
            f"mellum-4b-{kind}" for kind in ("base", "sft-all", "sft-python", "sft-kotlin", "sft-rust", "dpo-all")
        ),
    ),
    # huggingface.co/bigcode/starcoder2-15b, ibm-granite/granite-8b-code-base, stabilityai/stable-code-3b
    Family(
        "starcoder",
        prefix="<fim_prefix>",
        suffix="<fim_suffix>",
        middle="<fim_middle>",
        # StarCoder2's alone: arxiv.org/abs/2402.19173, section 5.1
        files=FileFormat("<file_sep>", "<repo_name>", own_path="behind prefix"),
    ),
    # github.com/deepseek-ai/DeepSeek-Coder (code insertion)
    Family("deepseek", prefix="<｜fim▁begin｜>", suffix="<｜fim▁hole｜>", middle="<｜fim▁end｜>"),
    # github.com/meta-llama/codellama, llama/generation.py: only the prefix has SentencePiece's space in front
    Family("codellama", prefix="▁<PRE>", suffix="▁<SUF>", middle="▁<MID>", lead=" ", ends=("▁<EOT>",)),
    # huggingface.co/mistralai/Codestral-22B-v0.1/discussions/5; mistral-common, encode_fim: the prefix has the space
    Family("codestral", prefix="[PREFIX]", suffix="[SUFFIX]", tail_first=True, lead=" "),
    # arxiv.org/abs/2506.03524, section 3.1
    Family("seed-coder", prefix="<[fim-prefix]>", suffix="<[fim-suffix]>", middle="<[fim-middle]>", tail_first=True),
    # GLM-4.5's tokenizer, in the order that github.com/zed-industries/zed writes it
    Family("glm", prefix="<|code_prefix|>", suffix="<|code_suffix|>", middle="<|code_middle|>"),
)
MARKER_NAMES = frozenset(name for family in FAMILIES for name in (*family.markers, *family.ends))
