// Runs in the page of VS Code: tells the line of the cursor and the ghost text as the screen shows them.
window.looking = {
    plain: (elements) => elements.map((each) => each.textContent).join("").replaceAll("\u00a0", " "),
    isGhost: (span) => span.className.includes("ghost-text"),
    // A file, or the cells of a notebook, each of which has a cursor.
    all: (selector) => [...document.querySelectorAll(`:is(.editor-instance, .notebookOverlay) ${selector}`)],
    spans() {
        const cursors = this.all(".cursors-layer .cursor");
        const cursor = cursors.find((each) => each.closest(".monaco-editor.focused")) ?? cursors[0];
        const lines = [...(cursor?.closest(".lines-content").querySelectorAll(":scope > .view-lines > .view-line") ?? [])];
        const line = lines.find((each) => each.style.top === cursor.style.top);
        return [...(line?.querySelectorAll(":scope > span > span") ?? [])];
    },
    line() {
        return this.plain(this.spans().filter((each) => !this.isGhost(each)));
    },
    ghost() {
        const first = this.plain(this.spans().filter(this.isGhost));
        const rest = this.all(".suggest-preview-text .view-line");
        return [first, ...rest.map((each) => this.plain([each]))].join("\n");
    },
    painted: (read) =>
        new Promise((resolve) => {
            const channel = new MessageChannel(); // its message comes after the frame is drawn
            channel.port1.onmessage = () => resolve(read());
            requestAnimationFrame(() => channel.port2.postMessage(0));
        }),
    watched: undefined, // the frames since `watch`, until `unwatch`
    async watch() {
        this.watched = [];
        while (this.watched) {
            const now = await this.painted(() => [this.line(), this.ghost()]);
            if (now.join("\0") !== this.watched?.at(-1)?.join("\0")) {
                this.watched?.push(now);
            }
        }
    },
    unwatch() {
        const seen = this.watched;
        this.watched = undefined;
        return seen;
    },
};
