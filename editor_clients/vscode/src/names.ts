// Tells the server which names VS Code's other language servers list where a name begins.
import {
    commands,
    CompletionItemKind,
    CompletionTriggerKind,
    window,
    type CompletionItem,
    type CompletionList,
    type Position,
    type TextDocument,
    type TextDocumentChangeEvent,
    type Uri,
} from "vscode";
import type { Middleware } from "vscode-languageclient/node";
import { configuration, NAMES } from "./settings";
import type { Audience } from "./suggestions";

const LONGEST = 300; // ms: later than this the word has been typed
const MOST = 5000; // names that the server takes: a longer list is not of one receiver
const RECEIVER = /(?:\.|->|::)$/;
const ARGUMENTS = /(?:\(|,\s*)$/;
const LISTER = "the editor"; // VS Code does not say which of its servers list a name

/**
 * The names at the place where a word begins, asked for once, as soon as it begins.
 *
 * VS Code's list of words is not touched: the servers are asked as it asks them, in addition.
 */
export class Names {
    private asked = ""; // the place that was asked about last
    private asking = 0;

    constructor(private readonly server: Audience) {}

    /** Keeps the server's own completion menu out of the list that is asked for, which no character triggers. */
    readonly middleware: Middleware = {
        provideCompletionItem: (document, position, context, token, next) =>
            this.asking > 0 && context.triggerKind === CompletionTriggerKind.Invoke
                ? null
                : next(document, position, context, token),
    };

    /** Ask about the word that an edit begins or goes on with. */
    follow({ document, contentChanges }: TextDocumentChangeEvent): void {
        const [change, ...more] = contentChanges;
        if (change === undefined || window.activeTextEditor?.document !== document) {
            return;
        }
        const cursor = document.positionAt(change.rangeOffset + change.text.length);
        const lead = document.lineAt(cursor).text.slice(0, cursor.character).replace(/[\p{L}\p{N}_]*$/u, "");
        const ofArguments = ARGUMENTS.test(lead);
        if (more.length > 0 || (!ofArguments && !RECEIVER.test(lead))) {
            this.asked = "";
            return;
        }
        const place = `${document.uri} ${cursor.line} ${lead}`;
        if (place !== this.asked && configuration().get(NAMES) === "auto") {
            this.asked = place;
            void this.ask(document, cursor.with({ character: lead.length }), ofArguments);
        }
    }

    private async ask(document: TextDocument, position: Position, ofArguments: boolean): Promise<void> {
        const { version, uri } = document;
        const found = await this.listed(uri, position);
        const names = found?.items.filter(({ kind }) => kind !== CompletionItemKind.Text) ?? [];
        const items = names.filter((item) => !ofArguments || labelOf(item).endsWith("="));
        if (found && items.length > 0 && items.length <= MOST) {
            this.server.notify("efim/names", {
                textDocument: { uri: uri.toString(), version },
                position: { line: position.line, character: position.character },
                server: LISTER,
                isIncomplete: found.isIncomplete === true || names.length < found.items.length,
                items: items.map((item) => ({ label: labelOf(item), kind: kindOf(item), sortText: item.sortText })),
            });
        }
    }

    /**
     * Return the other servers' names or, where they list none, words of the text. An answer that takes too long is
     * undefined: the word will have been typed by then.
     */
    private async listed(uri: Uri, position: Position): Promise<CompletionList | undefined> {
        this.asking += 1;
        try {
            return await Promise.race([
                commands.executeCommand<CompletionList>("vscode.executeCompletionItemProvider", uri, position),
                new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), LONGEST)),
            ]);
        } finally {
            this.asking -= 1;
        }
    }
}

function labelOf({ label }: CompletionItem): string {
    return typeof label === "string" ? label : label.label;
}

/** Return LSP's number of a kind; VS Code counts from 0, and has two more. */
function kindOf({ kind }: CompletionItem): number | undefined {
    return kind === undefined || kind > CompletionItemKind.TypeParameter ? undefined : kind + 1;
}
