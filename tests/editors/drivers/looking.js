// Runs in the page of VS Code: tells the line of the cursor and the ghost text as the screen shows them.
window.looking = {
    plain: (elements) => elements.map((each) => each.textContent).join("").replaceAll("\u00a0", " "),
    isGhost: (span) => span.className.includes("ghost-text"),
    spans() {
        const cursor = document.querySelector(".editor-instance .cursors-layer .cursor");
        const lines = [...document.querySelectorAll(".editor-instance .lines-content > .view-lines > .view-line")];
        const line = lines.find((each) => each.style.top === cursor?.style.top);
        return [...(line?.querySelectorAll(":scope > span > span") ?? [])];
    },
    line() {
        return this.plain(this.spans().filter((each) => !this.isGhost(each)));
    },
    ghost() {
        const first = this.plain(this.spans().filter(this.isGhost));
        const rest = [...document.querySelectorAll(".editor-instance .suggest-preview-text .view-line")];
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
