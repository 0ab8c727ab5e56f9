import assert from "node:assert/strict";
import { commands, ConfigurationTarget, window, workspace } from "vscode";
import type { Section } from "../src/explain";
import { explanationPage, sources } from "../src/explainPage";
import { ALL, BEGUN, cursorAt, eventually, explanation, open, take } from "./editing";

const ACTIONS = [{ title: "Refresh", command: "efim-ls.explain" }];
const SECTIONS: readonly Section[] = [
    { title: "Suggestion at a <b>.py:3:5", kind: "status", rows: [[{ text: "max_lines hides it", style: "message" }]] },
    { title: "Suggestion", kind: "text", rows: [[{ text: "max_lines<T>", style: "model", hint: `75% "sure"` }]] },
    {
        title: "",
        kind: "table",
        rows: [
            [{ text: "word" }, { text: "source" }],
            [{ text: "area" }, { text: "/a/b c.py:12", style: "source", path: "/a/b c.py", line: 12 }],
            [{ text: "" }, { text: "/d.py:1", path: "/d.py", line: 1 }],
        ],
    },
    { title: "What the model reads", kind: "lines", rows: [[{ text: "kept", style: "kept" }, { text: ": 9 tokens" }], []] },
    { title: "head", kind: "prompt", rows: [[{ text: "<script>alert(1)</script>", style: "kept" }]] },
    { title: "The whole prompt", kind: "folded", rows: [[{ text: "<|fim_prefix|>" }]] },
];

function painted(nonce = "nonce"): string {
    return explanationPage(SECTIONS, ACTIONS, (path) => path.slice(1), nonce);
}

describe("explanations", () => {
    it("show what a suggestion cost, part by part", async () => {
        const editor = await open(BEGUN);
        await take(editor, ALL);
        cursorAt(editor, 8, 16);
        const page = await explanation();
        assert.match(page, /<h1>Suggestion at Untitled-\d+:9:17<\/h1>/);
        assert.match(page, /<span class="kept">kept<\/span>: [1-9]\d* tokens? kept in memory/);
        assert.match(page, /<h2>typed: .* \(tokens: \d/);
        assert.match(page, /<span class="\w+" title="\d+ tokens? [\w ]+">[^<]*station\n?/);
    });

    it("show what is hidden, word by word", async () => {
        const least = (value?: number) =>
            workspace.getConfiguration("efim-ls").update("suggestions", value, ConfigurationTarget.Global);
        await least(0.95);
        await open(BEGUN.slice(0, -1));
        await commands.executeCommand("type", { text: BEGUN.slice(-1) });
        const page = await eventually("a suggestion", async () => /<h2>(Suggestion|Hidden suggestion)<[^]*/.exec(await explanation())?.[0]);
        await least();
        assert.match(page, /<span class="\w*" title="\d+% sure[^"]*">asured</);
        assert.match(page, /<span class="hidden" title="[^"]*hidden"> reading<\/span>/);
        assert.match(page, /<tr><td><span class="hidden">reading<\/span><\/td><td>\d+%<\/td>/);
    });

    it("tell why a language has no suggestions", async () => {
        await open("Dear all, ", "plaintext");
        assert.match(await explanation(), />No suggestion: .*plaintext/);
    });

    it("are painted section by section, with the markers behind a fold", () => {
        const [before = "", behind = ""] = painted().split("<details>");
        const parts = [
            `<h1>Suggestion at a &lt;b&gt;.py:3:5</h1>`,
            `<a class="button" role="button" href="command:efim-ls.explain">Refresh</a>`,
            `<h2>Suggestion</h2><pre><span class="model" title="75% &quot;sure&quot;">max_lines&lt;T&gt;</span></pre>`,
            `<table><tr><th scope="col">word</th><th scope="col">source</th></tr><tr><td>area</td>`,
            `<ul><li><span class="kept">kept</span>: 9 tokens</li><li></li></ul>`,
            `<h2>head</h2><pre><span class="kept">&lt;script&gt;`,
        ];
        const places = parts.map((each) => before.indexOf(each));
        assert.ok(!places.includes(-1), before);
        assert.deepEqual(places, places.toSorted((one, other) => one - other));
        assert.ok(behind.startsWith("<summary>The whole prompt</summary><pre>&lt;|fim_prefix|&gt;</pre>"), behind);
    });

    it("call settings in messages as VS Code does, and leave code as it is", () => {
        assert.match(painted(), /<p role="status"><span class="message">maxLines hides it<\/span><\/p>/);
    });

    it("link the places, and know the files that words come from", () => {
        const place = encodeURIComponent(JSON.stringify(["/a/b c.py", 12]));
        assert.ok(painted().includes(`<a href="command:efim-ls.openSource?${place}">a/b c.py:12</a>`), painted());
        assert.deepEqual(sources(SECTIONS), ["/a/b c.py"]);
    });

    it("run nothing and fetch nothing, whatever a file holds", () => {
        const page = painted("n0nce");
        assert.ok(page.includes(`content="default-src 'none'; style-src 'nonce-n0nce'"`));
        assert.doesNotMatch(page, /<script|onclick|style="|https?:|<img/);
    });

    it("open the place that they name, beside the view", async () => {
        const editor = await open(BEGUN);
        await explanation();
        const [folder] = workspace.workspaceFolders ?? [];
        assert.ok(folder);
        const path = `${folder.uri.fsPath}/named.py`;
        await workspace.fs.writeFile(folder.uri.with({ path }), Buffer.from(BEGUN));
        await commands.executeCommand("efim-ls.openSource", path, 3);
        assert.equal(window.activeTextEditor?.document.uri.fsPath, path);
        assert.equal(window.activeTextEditor?.selection.active.line, 2);
        assert.equal(window.activeTextEditor?.viewColumn, editor.viewColumn);
    });
});
