import assert from "node:assert/strict";
import { commands, ConfigurationTarget, workspace } from "vscode";
import { escaped } from "../src/markdown";
import { withOurNames } from "../src/settings";
import { explained } from "../src/statistics";
import { ALL, BEGUN, cursorAt, eventually, open, page, take } from "./editing";

describe("pages", () => {
    it("explain what the model sees at the cursor", async () => {
        const editor = await open(BEGUN);
        await take(editor, ALL);
        cursorAt(editor, 8, 16);
        const text = await page("explain");
        assert.match(text, /^## Suggestion at Untitled-\d+, line 9, column 17\n/);
        assert.match(text, /Tokens computed: \d+, reused: [1-9]/);
        assert.match(text, /\| typed: from there to the cursor \| \d+ \| \d+ \|/);
        assert.match(text, /```python\n[^`]*station\n?/);
    });

    it("explain what is shown and what is hidden, word by word", async () => {
        const least = (value?: number) =>
            workspace.getConfiguration("efim-ls").update("minConfidence", value, ConfigurationTarget.Global);
        await least(0.7);
        await open(BEGUN.slice(0, -1));
        await commands.executeCommand("type", { text: BEGUN.slice(-1) });
        const text = await eventually("a suggestion", async () => /### What is shown[^]*/.exec(await page("explain"))?.[0]);
        await least();
        assert.match(text, /^### What is shown\n\n```python\nasured \+=\n```\n\n`asured` \d+ %, /);
        assert.match(text, /### What is hidden\n\n```python\n reading.value\n```\n\n`reading` \d+ %, /);
    });

    it("show a message of the server as it is, with the names of settings that VS Code has", () => {
        assert.equal(escaped("a_b *c* <d> & `e`"), "a\\_b \\*c\\* &lt;d&gt; &amp; \\`e\\`");
        assert.equal(withOurNames("'min_confidence' hides a_name"), "'minConfidence' hides a_name");
    });

    it("tell why a language has no suggestions", async () => {
        await open("Dear all, ", "plaintext");
        assert.match(await page("explain"), /No suggestion: .*plaintext/);
    });

    it("explain the level that was learnt for a language", () => {
        const level = { level: 0.24, default: 0.2, shown: 412, kept: 103, usual: 0.275 };
        const text = "- python: shown from 24 % on (default 20 %): of 412 suggestions you kept 25 %, 28 % is usual";
        assert.equal(explained("python", level), text);
    });

    it("tell what became of the suggestions", async () => {
        await take(await open(BEGUN), ALL);
        const text = await page("showStatistics");
        assert.match(text, /^\| requests \| [1-9]\d* \|$/m);
        assert.match(text, /^\| there was a suggestion \| [1-9]\d* \|$/m);
        assert.match(text, /^\| all \| python \| \d+ \|/m);
    });
});
