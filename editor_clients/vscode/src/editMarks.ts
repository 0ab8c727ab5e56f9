// Draws a next edit: removed text is struck through, and new text stands next to it like ghost text.
import {
    MarkdownString,
    OverviewRulerLane,
    Range,
    ThemeColor,
    Uri,
    window,
    workspace,
    type Disposable,
    type TextEditor,
} from "vscode";

/** An edit at its place in a document. */
export interface Marked {
    readonly uri: string;
    readonly range: Range;
    readonly text: string;
}

export class EditMarks implements Disposable {
    private readonly old = window.createTextEditorDecorationType({
        textDecoration: "line-through",
        backgroundColor: new ThemeColor("diffEditor.removedTextBackground"),
        overviewRulerColor: new ThemeColor("editorOverviewRuler.modifiedForeground"),
        overviewRulerLane: OverviewRulerLane.Right,
    });
    private readonly new = window.createTextEditorDecorationType({
        after: { color: new ThemeColor("editorGhostText.foreground") },
        overviewRulerColor: new ThemeColor("editorOverviewRuler.modifiedForeground"),
        overviewRulerLane: OverviewRulerLane.Right,
    });
    private readonly hint = window.createTextEditorDecorationType({
        after: { color: new ThemeColor("editorGhostText.foreground"), margin: "0 0 0 2em" },
    });

    /** Draw an edit wherever its document is visible; where the user works and cannot see it, say where it is. */
    show(edit: Marked): void {
        for (const editor of window.visibleTextEditors) {
            const isHere = editor.document.uri.toString() === edit.uri;
            editor.setDecorations(this.old, isHere && !edit.range.isEmpty ? [edit.range] : []);
            editor.setDecorations(this.new, isHere && edit.text !== "" ? [added(edit)] : []);
            const isFar = editor === window.activeTextEditor && !(isHere && isInView(editor, edit.range));
            editor.setDecorations(this.hint, isFar ? [pointer(editor, edit)] : []);
        }
    }

    hide(): void {
        for (const editor of window.visibleTextEditors) {
            [this.old, this.new, this.hint].forEach((type) => editor.setDecorations(type, []));
        }
    }

    dispose(): void {
        [this.old, this.new, this.hint].forEach((type) => type.dispose());
    }
}

function added({ range, text }: Marked): { range: Range; renderOptions: object; hoverMessage: MarkdownString } {
    const hoverMessage = new MarkdownString().appendCodeblock(text);
    return { range: new Range(range.end, range.end), renderOptions: { after: { contentText: onOneLine(text) } }, hoverMessage };
}

function pointer({ document, selection }: TextEditor, { uri, range }: Marked): { range: Range; renderOptions: object } {
    const file = document.uri.toString() === uri ? "" : `${workspace.asRelativePath(Uri.parse(uri))}, `;
    const end = document.lineAt(selection.active.line).range.end;
    const contentText = onOneLine(`Tab: next edit in ${file}line ${range.start.line + 1}`);
    return { range: new Range(end, end), renderOptions: { after: { contentText } } };
}

function isInView({ visibleRanges }: TextEditor, range: Range): boolean {
    return visibleRanges.some((visible) => visible.intersection(range) !== undefined);
}

/** Return a text as a decoration shows it: it has no lines, and would lose blanks. */
function onOneLine(text: string): string {
    return text.replaceAll(/\r\n?|\n/g, "↵").replaceAll(" ", "\u00a0").replaceAll("\t", "\u00a0".repeat(4));
}
