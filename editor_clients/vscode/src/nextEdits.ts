// The next edit: asked for after edits and moves, shown, gone to, made or refused.
import {
    CancellationTokenSource,
    commands,
    Disposable,
    EndOfLine,
    Range,
    Selection,
    TextEditorRevealType,
    Uri,
    window,
    workspace,
    type TextEditor,
} from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { EditMarks, type Marked } from "./editMarks";
import { isOurs } from "./presence";
import { configuration, SECTION } from "./settings";

/** The server as next edits see it: its client while it can be asked, and whether the user wants suggestions now. */
export interface Asking {
    running(): LanguageClient | undefined;
    snoozed(): boolean;
    /** Called with what goes wrong, for the log. */
    failed(error: unknown): void;
}

interface Position {
    readonly line: number;
    readonly character: number;
}

/** An edit as the server offers it. */
interface Offered {
    readonly text: string;
    readonly range: { readonly start: Position; readonly end: Position };
    readonly textDocument: { readonly uri: string; readonly version: number | null };
    readonly command: { readonly command: string; readonly arguments: readonly string[] };
}

interface Shown extends Marked {
    readonly version: number | null; // of the document; null for a file that was not open
    readonly command: Offered["command"];
}

const STILL = 150; // ms without a key after which it is asked for
const REFUSE = "efim-ls.refuseNextEdit";
const SHOWN = `${SECTION}.nextEditShown`;

export class NextEdits implements Disposable {
    private readonly marks = new EditMarks();
    private readonly subscriptions: Disposable;
    private shown: Shown | undefined;
    private isDrawn = false;
    private isOpening = false; // true while the edit's file is opened and asked about
    private queue: Promise<void> = Promise.resolve();
    private seen: string | undefined; // the id last reported to the server
    private timer: NodeJS.Timeout | undefined;
    private asking: CancellationTokenSource | undefined;

    constructor(private readonly server: Asking) {
        this.subscriptions = Disposable.from(
            this.marks,
            workspace.onDidChangeTextDocument(({ document }) => {
                if (document === window.activeTextEditor?.document || document.uri.toString() === this.shown?.uri) {
                    this.refresh();
                }
            }),
            window.onDidChangeTextEditorSelection(({ textEditor }) => {
                if (textEditor === window.activeTextEditor) {
                    this.refresh();
                }
            }),
            window.onDidChangeActiveTextEditor(() => this.refresh()),
            window.onDidChangeTextEditorVisibleRanges(() => this.draw()),
            window.onDidChangeVisibleTextEditors(() => this.draw()),
        );
    }

    dispose(): void {
        this.hide();
        clearTimeout(this.timer);
        this.asking?.cancel();
        this.subscriptions.dispose();
    }

    /** Show what still fits, and ask again once the user has paused. */
    refresh(): void {
        if (this.isOpening) {
            return;
        }
        this.draw();
        this.asking?.cancel();
        clearTimeout(this.timer);
        this.timer = setTimeout(() => void this.ask(), STILL);
    }

    /** Go to the edit or, where the cursor is on one of its lines, make it; one key after the other. */
    goOrMake(): Promise<void> {
        const done = this.queue.then(() => this.goOrMakeNow());
        this.queue = done.catch(() => {});
        return done;
    }

    private async goOrMakeNow(): Promise<void> {
        const [edit, editor] = [this.fitting(), window.activeTextEditor];
        if (edit === undefined) {
            return;
        }
        if (editor !== undefined && isAt(editor, edit)) {
            await this.make(editor, edit);
        } else if (edit.version === null) {
            await this.open(edit);
        } else {
            await goTo(edit);
        }
    }

    /** Open the edit's file and ask again, since only an edit for the opened text can be made. */
    private async open(edit: Shown): Promise<void> {
        this.isOpening = true;
        try {
            await goTo(edit);
            await this.ask();
        } finally {
            this.isOpening = false;
            this.draw();
        }
    }

    /** Hide the edit for good. */
    async refuse(): Promise<void> {
        const edit = this.fitting();
        this.hide();
        if (edit !== undefined) {
            await this.tell(REFUSE, edit);
        }
    }

    private async ask(): Promise<void> {
        const [client, editor] = [this.server.running(), window.activeTextEditor];
        if (client === undefined || editor === undefined || !this.isWanted(editor)) {
            this.hide();
            return;
        }
        const asking = (this.asking = new CancellationTokenSource());
        const { document, selection } = editor;
        const params = {
            textDocument: { uri: document.uri.toString(), version: document.version },
            position: { line: selection.active.line, character: selection.active.character },
            otherFiles: true,
        };
        try {
            const { edits } = await client.sendRequest<{ edits: readonly Offered[] }>(
                "textDocument/copilotInlineEdit",
                params,
                asking.token,
            );
            if (!asking.token.isCancellationRequested) {
                this.shown = edits.map(understood)[0];
                this.draw();
            }
        } catch (error) {
            if (!asking.token.isCancellationRequested) {
                this.server.failed(error);
            }
        }
    }

    private isWanted({ document, selections }: TextEditor): boolean {
        const on = configuration().get("nextEdit", true) && configuration().get("enabled", true);
        return on && !this.server.snoozed() && isOurs(document) && selections.length === 1;
    }

    /** Return the edit that is shown, unless its document has another text by now, or was not open and is. */
    private fitting(): Shown | undefined {
        const { shown } = this;
        const document = workspace.textDocuments.find((each) => each.uri.toString() === shown?.uri);
        return (document?.version ?? null) === shown?.version ? shown : undefined;
    }

    private draw(): void {
        if (this.isOpening) {
            return;
        }
        const edit = this.fitting();
        if (edit === undefined) {
            this.hide();
            return;
        }
        this.marks.show(edit);
        this.isDrawn = true;
        void commands.executeCommand("setContext", SHOWN, true);
        const [id] = edit.command.arguments;
        if (this.seen !== id) {
            this.seen = id;
            const item = { command: edit.command };
            this.server.running()?.sendNotification("textDocument/didShowInlineEdit", { item }).catch(this.server.failed);
        }
    }

    private hide(): void {
        this.shown = undefined;
        if (this.isDrawn) {
            this.isDrawn = false;
            this.marks.hide();
            void commands.executeCommand("setContext", SHOWN, false);
        }
    }

    /** Make the edit as one step of undoing, and go behind it. */
    private async make(editor: TextEditor, edit: Shown): Promise<void> {
        const start = editor.document.offsetAt(edit.range.start);
        if (!(await editor.edit((builder) => builder.replace(edit.range, edit.text)))) {
            return;
        }
        const length = edit.text.replaceAll(/\r\n?|\n/g, editor.document.eol === EndOfLine.CRLF ? "\r\n" : "\n").length;
        const end = editor.document.positionAt(start + length);
        editor.selection = new Selection(end, end);
        await this.tell(edit.command.command, edit);
        this.refresh();
    }

    private async tell(command: string, edit: Shown): Promise<void> {
        const params = { command, arguments: edit.command.arguments };
        await this.server.running()?.sendRequest("workspace/executeCommand", params);
    }
}

function isAt({ document, selection }: TextEditor, { uri, range }: Marked): boolean {
    const { line } = selection.active;
    return document.uri.toString() === uri && range.start.line <= line && line <= range.end.line;
}

async function goTo({ uri, range }: Marked): Promise<void> {
    const document = await workspace.openTextDocument(Uri.parse(uri));
    const editor = await window.showTextDocument(document);
    editor.selection = new Selection(range.start, range.start);
    editor.revealRange(range, TextEditorRevealType.InCenterIfOutsideViewport);
}

function understood({ text, range: { start, end }, textDocument, command }: Offered): Shown {
    const range = new Range(start.line, start.character, end.line, end.character);
    return { text, range, uri: Uri.parse(textDocument.uri).toString(), version: textDocument.version, command };
}
