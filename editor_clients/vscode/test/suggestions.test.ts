import assert from "node:assert/strict";
import { commands, extensions } from "vscode";
import { ALL, BEGUN, LINE, REST, WORD, addedTo, counted, eventually, open, take } from "./editing";

describe("suggestions", () => {
    it("come once the extension is active", async () => {
        await extensions.getExtension("efim-ls.efim-ls")?.activate();
        await eventually("a server", async () => (await commands.getCommands()).includes("efim-ls.accept"));
        const editor = await open(BEGUN);
        assert.equal(await take(editor, ALL), REST);
    });

    it("come while typing", async () => {
        const editor = await open(BEGUN.slice(0, -2));
        await commands.executeCommand("type", { text: "m" });
        await eventually("a suggestion that is taken", async () => {
            await commands.executeCommand(ALL);
            return addedTo(editor, BEGUN.slice(0, -1)) !== "";
        });
        assert.equal(addedTo(editor, BEGUN), REST);
    });

    it("are taken word by word", async () => {
        const editor = await open(BEGUN);
        const word = await take(editor, WORD);
        assert.ok(REST.startsWith(word) && word.length < REST.length, word);
        assert.equal(word + (await take(editor, ALL)), REST);
    });

    it("are taken line by line", async () => {
        const editor = await open(BEGUN);
        assert.equal((await take(editor, LINE)).trimEnd(), REST);
    });

    it("land where they belong behind letters of any width", async () => {
        const begun = 'label = "größe 😀 日本"; total_measured = 1\nother = "größe 😀 日本"; total_me';
        const editor = await open(begun);
        assert.equal((await take(editor, ALL)).split("\n")[0], "asured = 1");
    });

    it("are counted once they are taken", async () => {
        const before = await counted();
        const whole = before("accepted") + 1;
        const part = before("accepted in part") + 1;
        await take(await open(BEGUN), ALL);
        await eventually("one that was taken whole", async () => (await counted())("accepted") === whole);
        await take(await open(BEGUN), WORD);
        const after = await eventually("one that was taken in part", async () => {
            const now = await counted();
            return now("accepted in part") === part && now;
        });
        assert.equal(after("accepted"), whole);
    });

    it("are not taken where their beginning is typed", async () => {
        const before = await counted();
        const editor = await open(BEGUN);
        await commands.executeCommand("editor.action.inlineSuggest.trigger");
        await eventually("a suggestion that is seen", async () => {
            return (await counted())("suggestions seen") > before("suggestions seen");
        });
        for (const text of "asured +=") {
            await commands.executeCommand("type", { text });
        }
        assert.equal(await take(editor, ALL), " reading.value");
        assert.equal((await counted())("accepted in part"), before("accepted in part"));
    });
});
