// What the server reports about itself: answers to efim/status, and efim/didChangeStatus.

export interface Costs {
    readonly uri: string;
    readonly reason: string | null;
    readonly reused: number;
    readonly recomputed: number;
    readonly ms: number;
}

export interface Counters {
    readonly shown: number;
    readonly accepted: number;
    readonly partially_accepted: number;
    readonly acceptance_rate: number | null;
    readonly kept_rate: number | null;
}

export interface Status {
    readonly state: "loading" | "ready" | "off" | "error";
    readonly message: string;
    /** Why the embedded model is used in place of the model that the settings name; empty if it is not. */
    readonly fallback?: string;
    /** What to know about suggestions in this document although they are on. */
    readonly notice?: string | null;
    readonly busy?: boolean;
    readonly percentage?: number | null;
    readonly model?: string;
    readonly device?: string;
    /** The larger model in the server's process that is asked as well; empty if none is. */
    readonly larger?: string;
    /** Name and port of the machine whose model is asked as well; empty if none is. */
    readonly remote?: string;
    readonly last?: Costs | null;
    /** Milliseconds of a typical key, the median of the last answers. */
    readonly typical_ms?: number | null;
    readonly counters?: Counters;
}

export const STATUS = "efim/status";
export const DID_CHANGE_STATUS = "efim/didChangeStatus";

/** What the server's reasons mean; a reason that is not here is shown as it is. */
export const OUTCOMES: Readonly<Record<string, string>> = {
    suggestion: "there was a suggestion",
    "low confidence": "not even the first word was likely enough",
    "too little": "it was only a single character, punctuation, a number or a keyword",
    "unknown word": "its first word occurs in no known file or module",
    empty: "the model expected no more text",
    duplicate: "the suggestion only repeated text around the cursor",
    "no fit": "the suggestion did not fit the text around the cursor",
    "no phrase": "the model does not know the language, and the file has no phrase that fits",
    "on request": "only a key asks the model",
    "no answer": "the model gave no answer: the log says why",
    superseded: "a newer request replaced it",
    cancelled: "it was cancelled, because you typed on or moved away",
    loading: "the model was still loading",
    "no model": "no model was loaded",
    disabled: "suggestions were turned off",
    "language off": "suggestions were off for the language",
    "file off": "suggestions were off for the file or its folder",
    "secret file": "the file looked like one with secrets",
    "file too large": "the file was too large",
    "binary text": "the text looked like binary data",
    "line too long": "the lines around the cursor were too long for the model",
    "unknown document": "the server did not know the document",
    error: "computing the suggestion failed: see the log",
};

const EMBEDDED = /[/\\]model_runtime[/\\]embedded[/\\](\w+)$/;

const LANGUAGES: Readonly<Record<string, string>> = { python: "Python", typescript: "TypeScript and JavaScript" };

/** Return the name of a model for people, by its folder or its name on the hub. */
export function modelName(model: string): string {
    const language = EMBEDDED.exec(model)?.[1];
    return language ? `the embedded model for ${LANGUAGES[language] ?? language}` : (model.split(/[/\\]/).at(-1) ?? model);
}
