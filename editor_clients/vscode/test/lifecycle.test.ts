import assert from "node:assert/strict";
import { commands } from "vscode";
import { ALL, BEGUN, REST, counted, open, take } from "./editing";

describe("the server", () => {
    it("is another one after a restart, and knows the documents that are open", async () => {
        const editor = await open(BEGUN);
        await take(await open(BEGUN), ALL);
        assert.ok((await counted())("requests") > 0);
        await commands.executeCommand("efim-ls.restart");
        assert.equal((await counted())("requests"), 0);
        assert.equal(await take(await open(editor.document.getText()), ALL), REST);
    });
});
