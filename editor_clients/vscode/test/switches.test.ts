import assert from "node:assert/strict";
import { commands, ConfigurationTarget, Uri, workspace } from "vscode";
import { currentLevel } from "../src/levels";
import { patternFor } from "../src/switches";
import { ALL, BEGUN, REST, eventually, explanation, open, take } from "./editing";

async function explained(outcome: RegExp): Promise<void> {
    await eventually(`an explanation like ${outcome}`, async () => outcome.test(await explanation()));
}

describe("switches", () => {
    afterEach(async () => {
        for (const name of ["enabled", "suggestions", "disabledLanguages", "disabledFiles", "otherFiles", "nextEdit"]) {
            for (const target of [ConfigurationTarget.Global, ConfigurationTarget.Workspace]) {
                await workspace.getConfiguration("efim-ls").update(name, undefined, target);
            }
        }
    });

    it("leave out a language, and take it in again", async () => {
        const left = await open(BEGUN);
        await commands.executeCommand("efim-ls.disableForLanguage");
        await explained(/>No suggestion: .*python/m);
        await commands.executeCommand("editor.action.inlineSuggest.trigger");
        await commands.executeCommand(ALL);
        assert.equal(left.document.getText(), BEGUN);
        await commands.executeCommand("efim-ls.enableForLanguage");
        await explained(/>The model is asked|>This was suggested/);
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
        await explained(/>No suggestion: .*enabled/m);
        await commands.executeCommand("efim-ls.enable");
        assert.equal(workspace.getConfiguration("efim-ls").inspect("enabled")?.globalValue, undefined);
        await explained(/>The model is asked|>This was suggested/);
        assert.equal(await take(await open(BEGUN), ALL), REST);
    });

    it("switch off a workspace alone, and on again", async () => {
        const enabled = () => workspace.getConfiguration("efim-ls").inspect("enabled");
        await open(BEGUN);
        await commands.executeCommand("efim-ls.disableForWorkspace");
        assert.deepEqual([enabled()?.workspaceValue, enabled()?.globalValue], [false, undefined]);
        await explained(/>No suggestion: .*enabled/m);
        await commands.executeCommand("efim-ls.disable");
        await commands.executeCommand("efim-ls.enableForWorkspace");
        assert.deepEqual([enabled()?.workspaceValue, enabled()?.globalValue], [true, false]);
        await explained(/>The model is asked|>This was suggested/);
    });

    it("ask only by key, and while the user types again", async () => {
        const set = () => workspace.getConfiguration("efim-ls").inspect("suggestions")?.globalValue;
        await open(BEGUN);
        assert.equal(currentLevel(), "balanced");
        await commands.executeCommand("efim-ls.setSuggestions", "on request");
        assert.deepEqual([set(), currentLevel()], ["on request", "on request"]);
        await explained(/>No suggestion: the model is asked only by key/);
        await commands.executeCommand("efim-ls.setSuggestions", "balanced");
        assert.deepEqual([set(), currentLevel()], ["balanced", "balanced"]);
        await explained(/>The model is asked|>This was suggested/);
    });

    it("switch off next edits everywhere, and on again", async () => {
        const set = () => workspace.getConfiguration("efim-ls").inspect("nextEdit")?.globalValue;
        await commands.executeCommand("efim-ls.switchNextEdits", false);
        assert.equal(set(), false);
        await commands.executeCommand("efim-ls.switchNextEdits", true);
        assert.equal(set(), undefined);
    });

    it("leave out the folder of a place that was explained", async () => {
        const [folder] = workspace.workspaceFolders ?? [];
        assert.ok(folder);
        const path = (...names: string[]): string => Uri.joinPath(folder.uri, ...names).fsPath;
        const name = folder.uri.path.split("/").at(-1);
        assert.equal(patternFor(path("vendored", "old", "shapes.py")), `${name}/vendored/old`);
        assert.equal(patternFor(path("shapes.py")), `${name}/shapes.py`);
        assert.equal(patternFor("/usr/lib/python3/shapes.py"), "/usr/lib/python3");
        await workspace.getConfiguration("efim-ls").update("disabledFiles", ["*.sql"], ConfigurationTarget.Global);
        await commands.executeCommand("efim-ls.leaveOut", path("vendored", "old", "shapes.py"));
        await commands.executeCommand("efim-ls.leaveOut", path("vendored", "old", "circles.py"));
        const left = workspace.getConfiguration("efim-ls").inspect("disabledFiles");
        assert.deepEqual(left?.workspaceValue, ["*.sql", `${name}/vendored/old`]);
        assert.deepEqual(left?.globalValue, ["*.sql"]);
    });

    it("switch off the memory of the repository in this workspace, and on again", async () => {
        const memory = () => workspace.getConfiguration("efim-ls").inspect("otherFiles")?.workspaceValue;
        await open(BEGUN);
        assert.match(await explanation(), />Switch the repository&#39;s memory off</);
        await commands.executeCommand("efim-ls.switchRepository", false);
        assert.equal(memory(), "off");
        assert.match(await explanation(), />Switch the repository&#39;s memory on</);
        await commands.executeCommand("efim-ls.switchRepository", true);
        assert.equal(memory(), undefined);
        await workspace.getConfiguration("efim-ls").update("otherFiles", "phrases", ConfigurationTarget.Workspace);
        await commands.executeCommand("efim-ls.switchRepository", false);
        assert.equal(memory(), "off");
        await commands.executeCommand("efim-ls.switchRepository", true);
        assert.equal(memory(), "phrases", "what it was");
    });
});
