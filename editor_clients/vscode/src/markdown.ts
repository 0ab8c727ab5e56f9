// Puts plain text into Markdown.

const SYNTAX = /[\\`*_{}[\]()#+\-.!|~$]/g;
const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/**
 * Return Markdown that shows a text as it is.
 *
 * `MarkdownString.appendText` also turns blanks into no-break spaces, so that a tooltip breaks lines within words.
 */
export function escaped(text: string): string {
    return text.replace(/[&<>]/g, (each) => ENTITIES[each] ?? each).replace(SYNTAX, "\\$&");
}
