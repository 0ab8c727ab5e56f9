import assert from "node:assert/strict";
import { commands, ConfigurationTarget, window, workspace } from "vscode";
import type { Explanation, Part, Word } from "../src/explain";
import { explanationPage, sources } from "../src/explainPage";
import { ALL, BEGUN, cursorAt, eventually, explanation, open, take } from "./editing";

const AROUND = { title: "a <b>.py", actions: [{ title: "Refresh", command: "efim-ls.explain" }], named: (path: string) => path };
const COSTS = { frame: "kept", reused: 12, recomputed: 3, ms: { total: 1.25 } } as const;

function word(text: string, probability: number, more: Partial<Word> = {}): Word {
    return { text, probability, model: null, file: null, repository: null, from: [], ...more };
}

function part(name: Part["part"], text: string, tokens: number, cost: Part["cost"]): Part {
    return { part: name, text, tokens, cost };
}

const EXPLAINED: Explanation = {
    parts: [
        part("marker", "<|fim_prefix|>", 1, "kept"),
        part("head", "import os\n", 9, "kept"),
        part("head", "x = 1\n", 4, "ahead"),
        part("tail", "<script>alert(1)</script>", 2, "disk"),
        part("typed", "y = ", 3, "recomputed"),
    ],
    rest: ")\n",
    reason: null,
    why: null,
    notice: null,
    costs: COSTS,
    spent: null,
    suggestion: {
        shown: "area<T>",
        hidden: "(r)",
        words: [
            word("area<T>", 0.75, {
                model: 0.1,
                file: 0.2,
                repository: 0.7,
                from: [{ path: "/a/b c.py", line: 12, tokens: 5 }],
            }),
            word("(r)", 0.25, { model: 0.6, file: 0.4, repository: 0 }),
        ],
    },
};

describe("explanations", () => {
    it("show what a suggestion cost, part by part", async () => {
        const editor = await open(BEGUN);
        await take(editor, ALL);
        cursorAt(editor, 8, 16);
        const page = await explanation();
        assert.match(page, /<h1>Suggestion at Untitled-\d+, line 9, column 17<\/h1>/);
        assert.match(page, /<span class="kept">kept<\/span>: [1-9]\d* tokens? kept in memory/);
        assert.match(page, /<h3>typed: from there to the cursor <small>\(tokens: \d/);
        assert.match(page, /<span class="\w+" title="\d+ tokens? [\w ]+">[^<]*station\n?/);
    });

    it("show what is hidden, word by word", async () => {
        const least = (value?: number) =>
            workspace.getConfiguration("efim-ls").update("suggestions", value, ConfigurationTarget.Global);
        await least(0.95);
        await open(BEGUN.slice(0, -1));
        await commands.executeCommand("type", { text: BEGUN.slice(-1) });
        const page = await eventually("a suggestion", async () => /<h2>What (is|would have been) suggested[^]*/.exec(await explanation())?.[0]);
        await least();
        assert.match(page, /<span class="" title="\d+ % sure">asured<\/span>|<span class="\w+" title="\d+ % sure, [^"]*">asured</);
        assert.match(page, /<span class="[a-z ]*hidden" title="[^"]*hidden"> reading<\/span>/);
        assert.match(page, /<tr class="hidden"><td>reading <small>hidden<\/small><\/td><td>\d+ %<\/td>/);
    });

    it("tell why a language has no suggestions", async () => {
        await open("Dear all, ", "plaintext");
        assert.match(await explanation(), />No suggestion: .*plaintext/);
    });

    it("say in colours and in words who said a word, and link the places", () => {
        const page = explanationPage(EXPLAINED, AROUND, "nonce");
        const title = "75 % sure, model 10 %, file 20 %, repository 70 %";
        assert.ok(page.includes(`<span class="repository" title="${title}">area&lt;T&gt;</span>`), page);
        assert.ok(page.includes(`<span class="model hidden" title="25 % sure, model 60 %, file 40 %, repository 0 %, hidden">`));
        const place = encodeURIComponent(JSON.stringify(["/a/b c.py", 12]));
        assert.ok(page.includes(`<a href="command:efim-ls.openSource?${place}"`), page);
        assert.match(page, />\/a\/b c\.py:12<\/a>/);
        assert.deepEqual(sources(EXPLAINED), ["/a/b c.py"]);
    });

    it("say where a word is from that the model has not guessed", () => {
        const words = [word("iffer", 0.75, { source: "from csv in <a&b>" })];
        const page = explanationPage({ ...EXPLAINED, suggestion: { shown: "iffer", hidden: "", words } }, AROUND, "nonce");
        assert.ok(page.includes(`<span class="" title="75 % sure, from csv in &lt;a&amp;b&gt;">iffer</span>`), page);
        assert.ok(page.includes(`<tr><td>iffer</td><td>75 %</td><td></td><td></td><td></td><td>from csv in &lt;a&amp;b&gt;</td></tr>`), page);
    });

    it("say which rule offers the next edit, and from which edits", () => {
        const past = { uri: "file:///a/b%20c.py", line: 2, removed: "width", added: "<b>" };
        const next_edit = { ...past, line: 7, rule: "rename", confidence: 0.9, because: [past, { ...past, line: null }] };
        const page = explanationPage({ ...EXPLAINED, next_edit }, AROUND, "nonce");
        const change = "<del>width</del> <ins>&lt;b&gt;</ins>";
        assert.ok(page.includes(`<p>b c.py:7 ${change}</p>`), page);
        assert.match(page, /By the rule <b>rename<\/b>, which is right in 90 %, from:/);
        assert.ok(page.includes(`<ul><li>b c.py:2 ${change}</li><li>b c.py ${change}</li></ul>`), page);
        assert.ok(!explanationPage(EXPLAINED, AROUND, "nonce").includes("The next edit"));
    });

    it("begin with the answer, and hide the markers behind a fold", () => {
        const unlikely = { ...EXPLAINED, reason: "low confidence", why: "the model is only 11% sure" };
        const page = explanationPage({ ...unlikely, suggestion: { ...EXPLAINED.suggestion!, shown: "", hidden: "area<T>(r)" } }, AROUND, "nonce");
        const order = ["What would have been suggested", "area&lt;T&gt;</span>", "No suggestion: ", "Who says it", "Refresh", "What the model reads"];
        const places = order.map((each) => page.indexOf(each));
        assert.ok(!places.includes(-1), page);
        assert.deepEqual(places, places.toSorted((one, other) => one - other));
        const [before = "", behind = ""] = page.split("<details>");
        assert.ok(!before.includes("fim_prefix") && behind.includes("&lt;|fim_prefix|&gt;"), page);
    });

    it("say something of the place, and not of the language alone", () => {
        const notice = "the model knows Python only";
        const there = { ...EXPLAINED, parts: [], rest: "", notice };
        const said = />This is what was suggested here\.<br>the model knows Python only</;
        assert.match(explanationPage(there, AROUND, "nonce"), said);
        const page = explanationPage({ ...there, suggestion: null }, AROUND, "nonce");
        assert.match(page, />Nothing was suggested here yet\.<br>the model knows Python only</);
    });

    it("count the tokens of each cost, and show where it changes within a part", () => {
        const page = explanationPage(EXPLAINED, AROUND, "nonce");
        assert.match(page, /<span class="kept">kept<\/span>: 10 tokens kept in memory/);
        assert.match(page, /<span class="recomputed">recomputed<\/span>: 3 tokens recomputed/);
        assert.match(page, /\(tokens: 9 kept, 4 ahead\)/);
        assert.match(page, /<small>\[ahead\]<\/small><span class="ahead" title="4 tokens computed ahead of need">x = 1/);
        assert.match(page, /A suggestion here would compute 3 tokens and reuse 12\./);
        assert.match(explanationPage({ ...EXPLAINED, spent: COSTS }, AROUND, "nonce"), /took 1\.3 ms/);
    });

    it("run nothing and fetch nothing, whatever a file holds", () => {
        const page = explanationPage(EXPLAINED, AROUND, "n0nce");
        assert.ok(page.includes(`content="default-src 'none'; style-src 'nonce-n0nce'"`));
        assert.doesNotMatch(page, /<script|onclick|style="|https?:|<img/);
        assert.ok(page.includes("&lt;script&gt;alert(1)&lt;/script&gt;") && page.includes("a &lt;b&gt;.py"));
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
