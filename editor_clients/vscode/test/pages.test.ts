import assert from "node:assert/strict";
import { ALL, BEGUN, cursorAt, open, page, take } from "./editing";

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

    it("tell why a language has no suggestions", async () => {
        await open("Dear all, ", "plaintext");
        assert.match(await page("explain"), /No suggestion: .*plaintext/);
    });

    it("tell what became of the suggestions", async () => {
        await take(await open(BEGUN), ALL);
        const text = await page("showStatistics");
        assert.match(text, /^\| requests \| [1-9]\d* \|$/m);
        assert.match(text, /^\| there was a suggestion \| [1-9]\d* \|$/m);
        assert.match(text, /^\| all \| python \| \d+ \|/m);
    });
});
