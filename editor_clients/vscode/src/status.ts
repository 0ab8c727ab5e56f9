// What the server reports about itself: answers to efim/status, and efim/didChangeStatus.

export interface Costs {
    readonly uri: string;
    readonly reason: string | null;
    readonly reused: number;
    readonly recomputed: number;
    readonly ms: number;
}

export interface Counters {
    readonly shown: number;
    readonly accepted: number;
    readonly partially_accepted: number;
    readonly acceptance_rate: number | null;
    readonly kept_rate: number | null;
}

export interface Status {
    readonly state: "loading" | "ready" | "off" | "error";
    readonly message: string;
    /** Why the embedded model is used in place of the one that the settings name; empty if it is not. */
    readonly fallback?: string;
    /** What to know about suggestions in this document although they are on. */
    readonly notice?: string | null;
    readonly busy?: boolean;
    readonly percentage?: number | null;
    readonly model?: string;
    readonly device?: string;
    readonly last?: Costs | null;
    readonly counters?: Counters;
}

export const STATUS = "efim/status";
export const DID_CHANGE_STATUS = "efim/didChangeStatus";
