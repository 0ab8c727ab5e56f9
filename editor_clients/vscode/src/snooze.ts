// Keeps suggestions away for a while, unless the user asks for one.
import { EventEmitter, type Disposable } from "vscode";

const MINUTES = 5; // each time, as VS Code's own snooze, which is for all extensions and not in every version

export class Snooze implements Disposable {
    private readonly changed = new EventEmitter<void>();
    readonly onDidChange = this.changed.event;
    private end: Date | undefined;
    private timer: NodeJS.Timeout | undefined;

    /** When suggestions come again; undefined if they come now. */
    get until(): Date | undefined {
        return this.end;
    }

    /** Snooze for some minutes, or for that much longer. */
    prolong(): void {
        this.set(new Date((this.end?.getTime() ?? Date.now()) + MINUTES * 60_000));
    }

    stop(): void {
        this.set(undefined);
    }

    dispose(): void {
        clearTimeout(this.timer);
        this.changed.dispose();
    }

    private set(end: Date | undefined): void {
        this.end = end;
        clearTimeout(this.timer);
        this.timer = end && setTimeout(() => this.stop(), end.getTime() - Date.now());
        this.changed.fire();
    }
}
