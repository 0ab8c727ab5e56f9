// Runs the tests inside VS Code's extension host; called by VS Code, with the extension loaded from its folder.
import Mocha from "mocha";

const PATIENCE = 400_000; // ms: longer than what a test waits for, which says what that is

export async function run(): Promise<void> {
    const mocha = new Mocha({ ui: "bdd", timeout: PATIENCE, color: false });
    mocha.suite.emit("pre-require", globalThis, "", mocha);
    await import("./suggestions.test");
    await import("./switches.test");
    await import("./pages.test");
    await import("./explain.test");
    await import("./lifecycle.test");
    await new Promise<void>((resolve, reject) => {
        mocha.run((failures) => (failures > 0 ? reject(new Error(`${failures} tests failed`)) : resolve()));
    });
}
