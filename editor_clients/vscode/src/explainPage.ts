// An explanation as a page: HTML without scripts, in the colours of the theme; the server says each colour in words as well.
import type { Section, Span } from "./explain";
import { withOurNames } from "./settings";

export interface Action {
    readonly title: string;
    readonly command: string;
    readonly argument?: unknown;
}

export const OPEN_SOURCE = "efim-ls.openSource";

// Colours underline, and each underlines in its own way: text keeps its contrast, and the ways differ without colours.
const STYLE = `
body { font-family: var(--vscode-font-family); color: var(--vscode-foreground); line-height: 1.5; }
h1 { font-size: 1.3em; } h2 { font-size: 1.1em; margin-top: 1.6em; } h3 { font-size: 1em; font-weight: normal; margin-bottom: 0; }
pre, code, td:first-child { font-family: var(--vscode-editor-font-family); font-size: var(--vscode-editor-font-size); }
pre { padding: .6em; overflow-x: auto; background: var(--vscode-textCodeBlock-background); border: 1px solid var(--vscode-contrastBorder, transparent); }
a { color: var(--vscode-textLink-foreground); }
a:focus-visible { outline: 1px solid var(--vscode-focusBorder); outline-offset: 2px; }
.button { display: inline-block; margin: 0 .5em .5em 0; padding: .2em .8em; text-decoration: none;
    color: var(--vscode-button-secondaryForeground); background: var(--vscode-button-secondaryBackground);
    border: 1px solid var(--vscode-contrastBorder, transparent); }
table { border-collapse: collapse; } th, td { text-align: right; padding: .1em .8em .1em 0; vertical-align: top; }
th { font-weight: normal; border-bottom: 1px solid var(--vscode-foreground); }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; } td:first-child { white-space: pre; }
ul { list-style: none; padding: 0; }
.kept, .file { --colour: var(--vscode-charts-green); border-bottom: 2px solid var(--colour); }
.ahead, .model { --colour: var(--vscode-charts-blue); border-bottom: 2px dotted var(--colour); }
.disk { --colour: var(--vscode-charts-purple); border-bottom: 2px dashed var(--colour); }
.recomputed, .repository { --colour: var(--vscode-charts-orange); border-bottom: 3px double var(--colour); }
pre span { background: color-mix(in srgb, var(--colour, transparent) 16%, transparent); }
.hidden, .note { color: var(--vscode-descriptionForeground); font-style: italic; }
details { margin-top: 1em; } summary { cursor: pointer; }
.removed { text-decoration: line-through; } .added { text-decoration: underline; }
`;

/** Return a whole page; `named` shortens paths. Only a style with this nonce counts, nothing is run, and nothing is fetched. */
export function explanationPage(
    sections: readonly Section[],
    actions: readonly Action[],
    named: (path: string) => string,
    nonce: string,
): string {
    const policy = `default-src 'none'; style-src 'nonce-${nonce}'`;
    const [status, ...others] = sections.map((each) => section(each, named));
    return [
        `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">`,
        `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
        `<title>Explain Suggestion</title><style nonce="${nonce}">${STYLE}</style></head><body>`,
        status,
        `<nav aria-label="Actions">${actions.map(button).join("")}</nav>`,
        ...others,
        `</body></html>`,
    ].join("\n");
}

/** Return the files that words or excerpts come from, in the order of their first mention. */
export function sources(sections: readonly Section[]): string[] {
    const spans = sections.flatMap(({ rows }) => rows.flat());
    return [...new Set(spans.flatMap(({ path, style }) => (style === "source" && path !== undefined ? [path] : [])))];
}

function section({ title, kind, rows }: Section, named: (path: string) => string): string {
    const lines = rows.map((row) => row.map((each) => span(each, named)));
    const heading = title === "" ? "" : `<h2>${escaped(title)}</h2>`;
    const text = lines.map((line) => line.join(""));
    switch (kind) {
        case "status":
            return `<h1>${escaped(title)}</h1><p role="status">${text.join("<br>")}</p>`;
        case "lines":
            return `${heading}<ul>${text.map((line) => `<li>${line}</li>`).join("")}</ul>`;
        case "table":
            return `${heading}<table>${lines.map(tableRow).join("")}</table>`;
        case "text":
        case "prompt":
            return `${heading}<pre>${text.join("\n")}</pre>`;
        case "folded":
            return `<details><summary>${escaped(title)}</summary><pre>${text.join("\n")}</pre></details>`;
    }
}

function tableRow(cells: readonly string[], number: number): string {
    const [open, close] = number === 0 ? [`<th scope="col">`, "</th>"] : ["<td>", "</td>"];
    return `<tr>${cells.map((cell) => `${open}${cell}${close}`).join("")}</tr>`;
}

function span({ text, style, hint, path, line }: Span, named: (path: string) => string): string {
    const title = hint === undefined ? "" : ` title="${escaped(hint)}"`;
    if (path !== undefined && line !== undefined) {
        const href = commandLink(OPEN_SOURCE, [path, line]);
        return `<a href="${href}"${title}>${escaped(`${named(path)}:${line}`)}</a>`;
    }
    const shown = escaped(style === "message" ? withOurNames(text) : text);
    return style === undefined && hint === undefined ? shown : `<span class="${escaped(style ?? "")}"${title}>${shown}</span>`;
}

function button({ title, command, argument }: Action): string {
    const href = commandLink(command, argument === undefined ? [] : [argument]);
    return `<a class="button" role="button" href="${href}">${escaped(title)}</a>`;
}

function commandLink(command: string, values: readonly unknown[]): string {
    const query = values.length === 0 ? "" : `?${encodeURIComponent(JSON.stringify(values))}`;
    return escaped(`command:${command}${query}`);
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Return HTML that shows a text as it is, in an attribute as well. */
function escaped(text: string): string {
    return text.replace(/[&<>"']/g, (each) => ENTITIES[each] ?? each);
}
