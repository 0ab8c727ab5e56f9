import assert from "node:assert/strict";
import { commands, ConfigurationTarget, workspace } from "vscode";
import { ALL, BEGUN, REST, eventually, open, page, take } from "./editing";

async function explained(outcome: RegExp): Promise<void> {
    await eventually(`an explanation like ${outcome}`, async () => outcome.test(await page("explain")));
}

describe("switches", () => {
    afterEach(async () => {
        for (const name of ["enabled", "disabledLanguages"]) {
            for (const target of [ConfigurationTarget.Global, ConfigurationTarget.Workspace]) {
                await workspace.getConfiguration("efim-ls").update(name, undefined, target);
            }
        }
    });

    it("leave out a language, and take it in again", async () => {
        const left = await open(BEGUN);
        await commands.executeCommand("efim-ls.disableForLanguage");
        await explained(/^No suggestion: .*python/m);
        await commands.executeCommand("editor.action.inlineSuggest.trigger");
        await commands.executeCommand(ALL);
        assert.equal(left.document.getText(), BEGUN);
        await commands.executeCommand("efim-ls.enableForLanguage");
        await explained(/^The model is asked/m);
        assert.equal(await take(await open(BEGUN), ALL), REST);
    });

    it("keep the other languages that are off", async () => {
        const languages = (): string[] => workspace.getConfiguration("efim-ls").get("disabledLanguages", []);
        const before = languages();
        await open(BEGUN);
        await commands.executeCommand("efim-ls.disableForLanguage");
        assert.deepEqual(languages(), [...before, "python"]);
        await commands.executeCommand("efim-ls.enableForLanguage");
        assert.deepEqual(languages(), before);
    });

    it("switch off everything, and on again", async () => {
        await open(BEGUN);
        await commands.executeCommand("efim-ls.disable");
        await explained(/^No suggestion: .*enabled/m);
        await commands.executeCommand("efim-ls.enable");
        assert.equal(workspace.getConfiguration("efim-ls").inspect("enabled")?.globalValue, undefined);
        await explained(/^The model is asked/m);
        assert.equal(await take(await open(BEGUN), ALL), REST);
    });

    it("switch off a workspace alone, and on again", async () => {
        const enabled = () => workspace.getConfiguration("efim-ls").inspect("enabled");
        await open(BEGUN);
        await commands.executeCommand("efim-ls.disableForWorkspace");
        assert.deepEqual([enabled()?.workspaceValue, enabled()?.globalValue], [false, undefined]);
        await explained(/^No suggestion: .*enabled/m);
        await commands.executeCommand("efim-ls.disable");
        await commands.executeCommand("efim-ls.enableForWorkspace");
        assert.deepEqual([enabled()?.workspaceValue, enabled()?.globalValue], [true, false]);
        await explained(/^The model is asked/m);
    });
});
