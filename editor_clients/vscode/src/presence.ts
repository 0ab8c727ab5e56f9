// Tells the server where the user is: the document in front, and cursor moves that are not edits.
import {
    Disposable,
    languages,
    window,
    type TextDocument,
    type TextEditor,
    type TextEditorSelectionChangeEvent,
} from "vscode";
import { DOCUMENTS } from "./client";
import type { Audience } from "./suggestions";

export class Presence implements Disposable {
    private readonly versions = new WeakMap<TextDocument, number>(); // those at which the cursor was last seen
    private readonly subscriptions: Disposable;

    constructor(private readonly audience: Audience) {
        this.subscriptions = Disposable.from(
            window.onDidChangeActiveTextEditor((editor) => this.focus(editor)),
            window.onDidChangeWindowState(({ focused }) => focused && this.focus(window.activeTextEditor)),
            window.onDidChangeTextEditorSelection((event) => this.move(event)),
        );
    }

    dispose(): void {
        this.subscriptions.dispose();
    }

    /** Tell a new server where the user is. */
    introduce(): void {
        this.focus(window.activeTextEditor);
    }

    private focus(editor: TextEditor | undefined): void {
        if (editor && isOurs(editor.document)) {
            this.versions.set(editor.document, editor.document.version);
            this.audience.notify("textDocument/didFocus", identified(editor.document));
        }
    }

    private move({ textEditor, selections }: TextEditorSelectionChangeEvent): void {
        const { document } = textEditor;
        const moved = this.versions.get(document) === document.version;
        this.versions.set(document, document.version);
        if (moved && selections[0] && isOurs(document)) {
            const { line, character } = selections[0].active;
            this.audience.notify("efim/didMoveCursor", { ...identified(document), position: { line, character } });
        }
    }
}

/** Return the editor that the user works in, or has just left for a panel or a page. */
export function editorInFront(): TextEditor | undefined {
    return [window.activeTextEditor, ...window.visibleTextEditors].find(
        (editor) => editor && isOurs(editor.document),
    );
}

/** Return whether the server knows about a document. */
export function isOurs(document: TextDocument): boolean {
    return languages.match(DOCUMENTS, document) > 0;
}

export function identified(document: TextDocument): { textDocument: { uri: string } } {
    return { textDocument: { uri: document.uri.toString() } };
}
