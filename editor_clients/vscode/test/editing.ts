// What the tests do in the editor, and how they wait.
import assert from "node:assert/strict";
import { commands, Position, Selection, window, workspace, type TextDocument, type TextEditor } from "vscode";

const DEADLINE = 300_000; // ms after which a test fails rather than wait on
const BREATH = 20; // ms between looks

/** Code whose last line the model goes on with as the line above it did. */
export const BEGUN = `def collect_measurements(station):
    for reading in station.readings:
        station.total_measured += reading.value
    return station.total_measured


def collect_measurements_again(station):
    for reading in station.readings:
        station.total_me`;
export const REST = "asured += reading.value";

/** Try something again and again until it returns something that is true. */
export async function eventually<T>(what: string, attempt: () => Promise<T | "" | false | undefined>): Promise<T> {
    for (const end = Date.now() + DEADLINE; Date.now() < end;) {
        const found = await attempt();
        if (found) {
            return found;
        }
        await new Promise((resolve) => setTimeout(resolve, BREATH));
    }
    return assert.fail(`waited in vain: ${what}`);
}

/** A new untitled document in front, with the cursor at its end. */
export async function open(content: string, language = "python"): Promise<TextEditor> {
    const document = await workspace.openTextDocument({ language, content });
    const editor = await window.showTextDocument(document);
    const end = document.positionAt(content.length);
    editor.selection = new Selection(end, end);
    return editor;
}

export function addedTo(editor: TextEditor, content: string): string {
    const text = editor.document.getText().replaceAll("\r\n", "\n");
    assert.ok(text.startsWith(content), text);
    return text.slice(content.length);
}

/** Ask for a suggestion, and take (a part of) it once it is there; returns what that added. */
export async function take(editor: TextEditor, command: string): Promise<string> {
    const before = editor.document.getText();
    await commands.executeCommand("editor.action.inlineSuggest.trigger");
    return await eventually("a suggestion", async () => {
        await commands.executeCommand(command);
        return addedTo(editor, before);
    });
}

export const ALL = "editor.action.inlineSuggest.commit";
export const WORD = "editor.action.inlineSuggest.acceptNextWord";
export const LINE = "editor.action.inlineSuggest.acceptNextLine";

/** The text of the page that a command shows. */
export async function page(command: string): Promise<string> {
    const before = Math.max(0, ...pages().map(numberOf));
    await commands.executeCommand(`efim-ls.${command}`);
    const shown = await eventually("a page", async () => pages().find((each) => numberOf(each) > before));
    return await eventually("its text", async () => !shown.getText().includes("Reading...") && shown.getText());
}

/** The page that explains the suggestion at the cursor, as HTML. */
export async function explanation(): Promise<string> {
    return (await commands.executeCommand<string | undefined>("efim-ls.explain")) ?? "";
}

function pages(): TextDocument[] {
    return workspace.textDocuments.filter(({ uri }) => uri.scheme === "efim-ls");
}

function numberOf({ uri }: TextDocument): number {
    return Number(uri.path.split("/")[1]);
}

/** The counts on the page of statistics; zero for events that it does not name. */
export async function counted(): Promise<(what: string) => number> {
    const rows = (await page("showStatistics")).matchAll(/^\| (.+) \| (\d+) \|$/gm);
    const numbers = new Map([...rows].map(([, what, number]) => [what, Number(number)]));
    return (what) => numbers.get(what) ?? 0;
}

export function cursorAt(editor: TextEditor, line: number, character: number): void {
    const at = new Position(line, character);
    editor.selection = new Selection(at, at);
}
