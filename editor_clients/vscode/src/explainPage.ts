// An explanation as a page: HTML without scripts, in the colours of the theme; each colour is told in words as well.
import type { ExplainedEdit, ExplainedNextEdit, Explanation, Part, Source, Suggestion, Word } from "./explain";
import { withOurNames } from "./settings";

export interface Action {
    readonly title: string;
    readonly command: string;
    readonly argument?: unknown;
}

export interface Surroundings {
    /** Where the cursor is, for people. */
    readonly title: string;
    readonly actions: readonly Action[];
    /** Return a path as people know it. */
    readonly named: (path: string) => string;
}

type Speaker = "model" | "file" | "repository";

export const OPEN_SOURCE = "efim-ls.openSource";

const SPEAKERS: Readonly<Record<Speaker, string>> = {
    model: "the model",
    file: "this file, or another open one",
    repository: "other files of the repository",
};
const COSTS: Readonly<Record<Part["cost"], string>> = {
    kept: "kept in memory",
    ahead: "computed ahead of need",
    disk: "read back from disk",
    recomputed: "recomputed",
};
const PARTS: Readonly<Record<Part["part"], string>> = {
    marker: "markers",
    signatures: "signatures: those that the workspace uses most",
    imports: "imports: what this file imports",
    head: "head: before the lines you work on",
    tail: "tail: after the cursor's line",
    similar: "similar: last edits, and similar code",
    typed: "typed: from there to the cursor",
};
const FRAMES = {
    kept: "is what the model saw last",
    restored: "was seen earlier, and is used again",
    new: "is new to the model",
};
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
.hidden { color: var(--vscode-descriptionForeground); font-style: italic; }
.none { text-decoration: none; }
details { margin-top: 1em; } summary { cursor: pointer; }
small { color: var(--vscode-descriptionForeground); }
`;

/** Return a whole page. Only a style with this nonce counts, nothing is run, and nothing is fetched. */
export function explanationPage(found: Explanation, { title, actions, named }: Surroundings, nonce: string): string {
    const policy = `default-src 'none'; style-src 'nonce-${nonce}'`;
    return [
        `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">`,
        `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
        `<title>Explain Suggestion</title><style nonce="${nonce}">${STYLE}</style></head><body>`,
        `<h1>Suggestion at ${escaped(title)}</h1>`,
        ...(found.suggestion ? suggested(found.suggestion) : []),
        `<p role="status">${outcome(found).map(escaped).join("<br>")}</p>`,
        ...(found.suggestion?.words.length ? speakers(found.suggestion, named) : []),
        ...(found.next_edit ? nextEdit(found.next_edit) : []),
        `<nav aria-label="Actions">${actions.map(button).join("")}</nav>`,
        ...(found.parts.length > 0 ? prompt(found) : []),
        `</body></html>`,
    ].join("\n");
}

/** Return the files that an explanation names, the one that is named first at the beginning. */
export function sources({ suggestion }: Explanation): string[] {
    return [...new Set(suggestion?.words.flatMap(({ from }) => from.map(({ path }) => path)) ?? [])];
}

/** Return a sentence on the place, and what else there is to know about suggestions in such a file. */
function outcome({ why, reason, notice, suggestion }: Explanation): string[] {
    const cause = why ?? reason;
    if (cause) {
        return [`No suggestion: ${withOurNames(cause)}`];
    }
    const told = suggestion
        ? "This is what was suggested here."
        : notice
          ? "Nothing was suggested here yet."
          : "The model is asked for a suggestion here.";
    return notice ? [told, withOurNames(notice)] : [told];
}

function nextEdit(edit: ExplainedNextEdit): string[] {
    const rule = `By the rule <b>${escaped(edit.rule)}</b>, which is right in ${percent(edit.confidence)}, from:`;
    const because = edit.because.map((each) => `<li>${change(each)}</li>`);
    return [`<h2>The next edit</h2>`, `<p>${change(edit)}</p>`, `<p>${rule}</p>`, `<ul>${because.join("")}</ul>`];
}

function change({ uri, line, removed, added }: ExplainedEdit): string {
    const place = `${decodeURIComponent(uri.split("/").at(-1) ?? uri)}${line === null ? "" : `:${line}`}`;
    return `${escaped(place)} <del>${escaped(visible(removed))}</del> <ins>${escaped(visible(added))}</ins>`;
}

function suggested(suggestion: Suggestion): string[] {
    const { shown, hidden, words } = suggestion;
    const text =
        words.length === 0
            ? escaped(shown + hidden)
            : seenWords(suggestion).map(({ word, hidden }) => wordInText(word, hidden)).join("");
    return [`<h2>${shown === "" ? "What would have been suggested" : "What is suggested"}</h2>`, `<pre>${text}</pre>`];
}

/** Return each word with whether it is too unlikely to be shown. */
function seenWords({ shown, words }: Suggestion): { readonly word: Word; readonly hidden: boolean }[] {
    let place = 0;
    return words.map((word) => {
        const hidden = place >= shown.length;
        place += word.text.length;
        return { word, hidden };
    });
}

function speakers(suggestion: Suggestion, named: (path: string) => string): string[] {
    const { words } = suggestion;
    const seen = seenWords(suggestion);
    const hides = seen.some(({ hidden }) => hidden);
    const spoken = (Object.keys(SPEAKERS) as Speaker[]).filter((who) => words.some((word) => speaker(word) === who));
    return [
        `<h2>Who says it</h2>`,
        `<ul aria-label="Legend">`,
        ...spoken.map((who) => `<li><span class="${who}">${who}</span>: ${SPEAKERS[who]}</li>`),
        ...(hides
            ? [`<li><span class="hidden">hidden</span>: too unlikely to be shown yet (<code>efim-ls.suggestions</code>)</li>`]
            : []),
        `</ul>`,
        `<table><thead><tr><th scope="col">word</th><th scope="col">sure</th><th scope="col">model</th>`,
        `<th scope="col">file</th><th scope="col">repository</th><th scope="col">where</th></tr></thead><tbody>`,
        ...seen.map(({ word, hidden }) => row(word, hidden, named)),
        `</tbody></table>`,
        `<p>How sure: how likely each word is, if all before it is right.</p>`,
    ];
}

function wordInText(word: Word, hidden: boolean): string {
    const kind = [speaker(word) ?? "", hidden ? "hidden" : ""].join(" ").trim();
    return `<span class="${kind}" title="${escaped(summary(word, hidden))}">${escaped(word.text)}</span>`;
}

/** Return what is known of a word on one line, as it is shown when the mouse rests on it. */
function summary(word: Word, hidden: boolean): string {
    const shares = (Object.keys(SPEAKERS) as Speaker[]).flatMap((who) =>
        word[who] === null ? [] : [`${who} ${percent(word[who])}`],
    );
    const source = word.source ? [word.source] : [];
    return [`${percent(word.probability)} sure`, ...shares, ...source, ...(hidden ? ["hidden"] : [])].join(", ");
}

/** Return who said most of a word. */
function speaker(word: Word): Speaker | undefined {
    const shares = (Object.keys(SPEAKERS) as Speaker[]).map((who) => [who, word[who] ?? 0] as const);
    const [most] = shares.sort(([, one], [, other]) => other - one);
    return most !== undefined && most[1] > 0 ? most[0] : undefined;
}

function row(word: Word, hidden: boolean, named: (path: string) => string): string {
    const figures = [word.probability, word.model, word.file, word.repository].map((share) => `<td>${percent(share)}</td>`);
    const where = [...(word.source ? [escaped(word.source)] : []), ...word.from.map((each) => link(each, named))].join("<br>");
    const text = `${escaped(visible(word.text))}${hidden ? " <small>hidden</small>" : ""}`;
    return `<tr${hidden ? ` class="hidden"` : ""}><td>${text}</td>${figures.join("")}<td>${where}</td></tr>`;
}

function link({ path, line, tokens }: Source, named: (path: string) => string): string {
    const href = commandLink(OPEN_SOURCE, [path, line]);
    return `<a href="${href}" title="the ${tokens} tokens before it are the same there">${escaped(named(path))}:${line}</a>`;
}

function prompt({ parts, rest, spent, costs }: Explanation): string[] {
    const said = spent
        ? `The answer here computed ${counted(spent.recomputed)}, reused ${spent.reused.toLocaleString("en")}, and took ${spent.ms.total.toFixed(1)} ms.`
        : `A suggestion here would compute ${counted(costs.recomputed)} and reuse ${costs.reused.toLocaleString("en")}.`;
    return [
        `<h2>What the model reads, and what that costs</h2>`,
        `<p>${said} The text around the cursor ${FRAMES[(spent ?? costs).frame]}.</p>`,
        `<ul aria-label="Legend">`,
        ...(Object.keys(COSTS) as Part["cost"][]).map((cost) => legend(cost, parts)),
        `</ul>`,
        ...grouped(parts.filter((each) => each.part !== "marker")).map(part),
        ...(rest.trim() === "" ? [] : [`<h3>rest of the line, which it does not read</h3><pre class="none">${escaped(rest.trimEnd())}</pre>`]),
        `<details><summary>The whole prompt, with its markers</summary><pre>${pieces(parts)}</pre></details>`,
    ];
}

function legend(cost: Part["cost"], parts: readonly Part[]): string {
    const tokens = parts.filter((each) => each.cost === cost).reduce((sum, each) => sum + each.tokens, 0);
    return `<li><span class="${cost}">${cost}</span>: ${counted(tokens)} ${COSTS[cost]}</li>`;
}

/** Return the pieces of each part of the prompt together. */
function grouped(parts: readonly Part[]): Part[][] {
    const groups: Part[][] = [];
    for (const each of parts) {
        const last = groups.at(-1);
        if (last?.[0]?.part === each.part) {
            last.push(each);
        } else {
            groups.push([each]);
        }
    }
    return groups;
}

function part(group: readonly Part[]): string {
    const [first] = group;
    const costs = group.map(({ cost, tokens }) => `${tokens.toLocaleString("en")} ${cost}`).join(", ");
    return `<h3>${first === undefined ? "" : PARTS[first.part]} <small>(tokens: ${costs})</small></h3><pre>${pieces(group)}</pre>`;
}

/** Return the texts of parts, each with its colour; where the cost changes, it is told in words. */
function pieces(parts: readonly Part[]): string {
    const several = new Set(parts.map(({ cost }) => cost)).size > 1;
    const texts = parts.map(({ cost, tokens, text }, number) => {
        const tag = several && parts[number - 1]?.cost !== cost ? `<small>[${cost}]</small>` : "";
        return `${tag}<span class="${cost}" title="${counted(tokens)} ${COSTS[cost]}">${escaped(text)}</span>`;
    });
    return texts.join("");
}

function button({ title, command, argument }: Action): string {
    const href = commandLink(command, argument === undefined ? [] : [argument]);
    return `<a class="button" role="button" href="${href}">${escaped(title)}</a>`;
}

function commandLink(command: string, values: readonly unknown[]): string {
    const query = values.length === 0 ? "" : `?${encodeURIComponent(JSON.stringify(values))}`;
    return escaped(`command:${command}${query}`);
}

function counted(tokens: number): string {
    return `${tokens.toLocaleString("en")} ${tokens === 1 ? "token" : "tokens"}`;
}

function percent(share: number | null): string {
    return share === null ? "" : `${Math.round(100 * share)} %`;
}

function visible(word: string): string {
    return word.replaceAll("\n", "↵").trim() || word;
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Return HTML that shows a text as it is, in an attribute as well. */
function escaped(text: string): string {
    return text.replace(/[&<>"']/g, (each) => ENTITIES[each] ?? each);
}
