// The server's explanation in sections of labelled text: the suggestion at the cursor, the text that the model reads,
// and its cost.
import type { Position, TextDocument } from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { identified } from "./presence";

/** A text with the name of its style, a hint for the mouse, and the place that it links to, whose line counts from 1. */
export interface Span {
    readonly text: string;
    readonly style?: string;
    readonly hint?: string;
    readonly path?: string;
    readonly line?: number;
}

/** Rows of a table have a cell in each span; other rows are spans side by side. */
export interface Section {
    readonly title: string;
    readonly kind: "status" | "lines" | "table" | "text" | "prompt" | "folded";
    readonly rows: readonly (readonly Span[])[];
}

export interface Explanation {
    readonly sections: readonly Section[];
}

export async function explain(client: LanguageClient, document: TextDocument, at: Position): Promise<Explanation> {
    const position = { line: at.line, character: at.character };
    return await client.sendRequest<Explanation>("efim/explain", { ...identified(document), position });
}
