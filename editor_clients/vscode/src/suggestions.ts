// Tells the server which of its suggestions were seen and which were accepted in part, and asks for what follows those.
import {
    commands,
    InlineCompletionTriggerKind,
    Range,
    SnippetString,
    window,
    workspace,
    type CancellationToken,
    type InlineCompletionItem,
    type Position,
    type TextDocument,
    type TextDocumentChangeEvent,
} from "vscode";
import type { Middleware } from "vscode-languageclient/node";

export interface Audience {
    notify(method: string, params: object): void;
}

export interface Asked extends Audience {
    /** Wait while the model is loaded: VS Code does not ask again at a place where the answer was once nothing. */
    loaded(token: CancellationToken): Promise<void>;
    /** Whether only suggestions that the user asks for are wanted. */
    snoozed(): boolean;
}

interface Offer {
    readonly item: InlineCompletionItem;
    readonly text: string;
    seen: boolean;
}

const CLOSERS: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };
const PAIRS = ["()", "[]", "{}", "<>", '""', "''", "``"];

export const DID_IMPROVE_SUGGESTION = "efim/didImproveSuggestion";

/** The document for which the server has a better suggestion than it last gave. */
export interface Improved {
    readonly textDocument: { readonly uri: string };
}

/**
 * The suggestions delivered last, and how far the document has followed them.
 *
 * Editors tell extensions of a suggestion that is taken whole, by its command, but not of a word or a line of it. So
 * that is read off the document: one insertion, at the place of its rest, of the beginning of that rest.
 */
export class Suggestions {
    private offers: Offer[] = [];
    private uri = "";
    private offset = 0; // where the rest begins, in the document
    private followed = 0; // UTF-16 units of the suggestion that stand before it
    private opened = -1; // offset behind a bracket that accepted text ends with, until the next edit
    private asking = 0; // triggers for another suggestion that VS Code has not answered yet
    private requests = 0; // that VS Code has made

    constructor(private readonly server: Asked) {}

    readonly middleware: Middleware = {
        provideInlineCompletionItems: async (document, position, asked, token, next) => {
            this.requests += 1;
            const context = this.asking > 0 ? { ...asked, triggerKind: InlineCompletionTriggerKind.Automatic } : asked;
            if (this.server.snoozed() && context.triggerKind === InlineCompletionTriggerKind.Automatic) {
                return null;
            }
            await this.server.loaded(token);
            const result = token.isCancellationRequested ? null : await next(document, position, context, token);
            if (result && !token.isCancellationRequested) {
                this.deliver(document, position, "items" in result ? result.items : result);
            }
            return result;
        },
        executeCommand: async (command, args, next) => {
            const accepted = this.offers.filter(({ item }) => item.command?.arguments?.[0] === args[0]);
            accepted.forEach((each) => this.see(each));
            const told = next(command, args);
            if (accepted.length > 0 && workspace.getConfiguration("editor").get("inlineSuggest.enabled")) {
                void this.askForMore();
            }
            return await told;
        },
    };

    /** Follow an edit: a suggestion that it does not go along with is gone. */
    follow({ document, contentChanges, reason }: TextDocumentChangeEvent): void {
        const [change, ...more] = contentChanges;
        if (document.uri.toString() !== this.uri || change === undefined) {
            return;
        }
        const text = withLineFeeds(change.text);
        if (more.length === 0 && change.rangeOffset === this.opened && /^\n[ \t]*$/.test(text)) {
            void closeBlock(document, this.opened + change.text.length);
        }
        this.opened = -1;
        const elsewhere = more.length > 0 || change.rangeLength > 0 || change.rangeOffset !== this.offset;
        this.offers = elsewhere || reason ? [] : this.offers.filter((offer) => this.rest(offer).startsWith(text));
        this.offset += change.text.length;
        this.followed += text.length;
        const [offer] = this.offers;
        if (offer && wasTaken(text) && /[([{]$/.test(text)) {
            this.opened = this.offset;
        }
        if (offer && wasTaken(text) && this.followed < offer.text.length) {
            this.see(offer);
            const taken = { item: described(offer.item), acceptedLength: this.followed };
            this.server.notify("textDocument/didPartiallyAcceptCompletion", taken);
        }
    }

    /**
     * Ask for what follows an accepted suggestion, as typing would.
     *
     * VS Code does so itself after Tab, but not after the last word or line. An older one does not know `explicit` and
     * asks as if the user had pressed a key, so the request is marked where it passes.
     */
    private async askForMore(): Promise<void> {
        this.asking += 1;
        try {
            await commands.executeCommand("editor.action.inlineSuggest.trigger", { explicit: false });
        } finally {
            this.asking -= 1;
        }
    }

    /**
     * Ask again where a better suggestion has come; VS Code would keep the suggestion that it shows.
     *
     * While an older answer is on its way into the editor, VS Code takes that instead of asking; then ask once more.
     */
    async renew({ textDocument }: Improved): Promise<void> {
        const before = this.requests;
        for (let tries = 0; tries < 2 && this.requests === before; tries++) {
            const editor = window.activeTextEditor;
            if (editor?.document.uri.toString() === textDocument.uri && this.followed === 0) {
                await commands.executeCommand("editor.action.inlineSuggest.hide");
                await this.askForMore();
            }
        }
    }

    private deliver(document: TextDocument, position: Position, items: InlineCompletionItem[]): void {
        this.uri = document.uri.toString();
        this.offset = document.offsetAt(position);
        this.followed = 0;
        this.offers = items.map((item) => ({ item, text: textOf(item), seen: false }));
        this.offers.slice(0, 1).forEach((first) => this.see(first));
    }

    private see(offer: Offer): void {
        if (!offer.seen) {
            offer.seen = true;
            this.server.notify("textDocument/didShowCompletion", { item: described(offer.item) });
        }
    }

    private rest(offer: Offer): string {
        return offer.text.slice(this.followed);
    }
}

/**
 * Close the bracket that stands at the end of the line above `offset`, where nothing below does.
 *
 * VS Code closes brackets that are typed, and none that are accepted. It refuses the edit if a key came in between.
 */
async function closeBlock(document: TextDocument, offset: number): Promise<void> {
    const editor = window.activeTextEditor;
    const at = document.positionAt(offset);
    const [head, line] = [document.lineAt(at.line - 1), document.lineAt(at.line)];
    const indent = head.text.slice(0, head.firstNonWhitespaceCharacterIndex);
    const closer = `${indent}${CLOSERS[head.text.at(-1) ?? ""] ?? ""}`;
    const rest = document.getText(new Range(at.line + 1, 0, document.lineCount, 0));
    const below = rest.replace(/^\s*\n/, "").trimEnd();
    const goesOn = below.startsWith(closer) || (below.startsWith(indent) && /^[ \t]/.test(below.slice(indent.length)));
    const wanted = workspace.getConfiguration("editor", document).get("autoClosingBrackets") !== "never";
    if (editor?.document === document && wanted && !goesOn && line.range.end.isEqual(at)) {
        const block = new SnippetString().appendText(line.text).appendTabstop(0).appendText(`\n${closer}`);
        const merged = { undoStopBefore: false, undoStopAfter: false, keepWhitespace: true };
        await editor.insertSnippet(block, line.range, merged);
    }
}

/** Return whether a text was accepted, not typed: more than a character, no pair closed by the editor, no new line. */
function wasTaken(text: string): boolean {
    return [...text].length > 1 && text.trim() !== "" && !PAIRS.includes(text);
}

function described(item: InlineCompletionItem): object {
    return { insertText: textOf(item), command: item.command };
}

function textOf({ insertText }: InlineCompletionItem): string {
    return withLineFeeds(typeof insertText === "string" ? insertText : insertText.value);
}

function withLineFeeds(text: string): string {
    return text.replaceAll("\r\n", "\n");
}
