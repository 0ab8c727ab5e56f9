import assert from "node:assert/strict";
import { workspace, type TextDocument } from "vscode";
import { escaped } from "../src/markdown";
import { Pages } from "../src/pages";
import { withOurNames } from "../src/settings";
import { explained } from "../src/statistics";
import { ALL, BEGUN, eventually, open, page, take } from "./editing";

describe("pages", () => {
    it("show a message of the server as it is, with the names of settings that VS Code has", () => {
        assert.equal(escaped("a_b *c* <d> & `e`"), "a\\_b \\*c\\* &lt;d&gt; &amp; \\`e\\`");
        assert.equal(withOurNames("'max_lines' hides a_name"), "'maxLines' hides a_name");
    });

    it("explain the level that was learnt for a language", () => {
        const level = { level: 0.24, default: 0.2, shown: 412, kept: 103, usual: 0.275 };
        const text = "- python: shown from 24 % on (default 20 %): of 412 suggestions you kept 25 %, 28 % is usual";
        assert.equal(explained("python", level), text);
    });

    it("are opened at once, and say later what is read meanwhile", async () => {
        const pages = new Pages();
        let tell = (_: string): void => {};
        const shown = pages.show("Anything", new Promise<string>((resolve) => (tell = resolve)));
        const found = (): TextDocument | undefined =>
            workspace.textDocuments.find(({ uri }) => uri.path.endsWith("/Anything.md"));
        const page = await eventually("a page", async () => found());
        assert.match(page.getText(), /Reading\.\.\./);
        tell("what was read");
        await shown;
        await eventually("what was read", async () => found()?.getText() === "what was read");
        pages.dispose();
    });

    it("show the suggestions by outcome", async () => {
        await take(await open(BEGUN), ALL);
        const text = await page("showStatistics");
        assert.match(text, /^\| requests \| [1-9]\d* \|$/m);
        assert.match(text, /^\| there was a suggestion \| [1-9]\d* \|$/m);
        assert.match(text, /^\| a typical key: time to an answer, median \| \d+\.\d\u00a0ms \|$/m);
        assert.match(text, /^\| all \| python \| \d+ \|/m);
    });
});
