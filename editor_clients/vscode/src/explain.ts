// What the server explains: what is suggested at the cursor, what the model reads there, and what that costs.
import type { Position, TextDocument } from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { identified } from "./presence";

/** A place in the repository, whose line counts from 1, and how many tokens before the word are the same there. */
export interface Source {
    readonly path: string;
    readonly line: number;
    readonly tokens: number;
}

export interface Word {
    readonly text: string;
    /** How likely it is once those before it are right. */
    readonly probability: number;
    /** Who said it, in shares; null if that is not known. */
    readonly model: number | null;
    readonly file: number | null;
    readonly repository: number | null;
    readonly from: readonly Source[];
    /** Where it is from, in plain words, if it stands in place of the model's guess. */
    readonly source?: string | null;
}

export interface Suggestion {
    readonly shown: string;
    readonly hidden: string;
    /** The pieces of both. */
    readonly words: readonly Word[];
}

export interface Part {
    readonly part: "marker" | "signatures" | "imports" | "head" | "tail" | "similar" | "typed";
    readonly text: string;
    readonly tokens: number;
    readonly cost: "kept" | "ahead" | "disk" | "recomputed";
}

interface Costs {
    readonly frame: "kept" | "restored" | "new";
    readonly reused: number;
    readonly recomputed: number;
    readonly ms: { readonly total: number };
}

/** An edit, with its line counted from 1. */
export interface ExplainedEdit {
    readonly uri: string;
    readonly line: number | null;
    readonly removed: string;
    readonly added: string;
}

export interface ExplainedNextEdit extends ExplainedEdit {
    /** Who proposes it, how often such proposals are right, and what it follows from. */
    readonly rule: string;
    readonly confidence: number;
    readonly because: readonly ExplainedEdit[];
}

export interface Explanation {
    readonly parts: readonly Part[];
    readonly rest: string;
    readonly reason: string | null;
    readonly why?: string | null;
    readonly notice?: string | null;
    readonly suggestion?: Suggestion | null;
    readonly next_edit?: ExplainedNextEdit | null;
    readonly costs: Costs;
    /** What the last answer here cost, by which the parts are told apart; without one, by what the next would cost. */
    readonly spent?: Costs | null;
}

export async function explain(client: LanguageClient, document: TextDocument, at: Position): Promise<Explanation> {
    const position = { line: at.line, character: at.character };
    return await client.sendRequest<Explanation>("efim/explain", { ...identified(document), position });
}
