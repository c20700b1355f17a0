// Marks queries as stale after job events, at a limited rate.
import type { JobEvent } from "./live";

type Key = readonly string[];

/** Topics (first words of query keys) that a job event makes stale, with the minimum interval in milliseconds. */
export const TOPICS: Record<string, number> = {
  cluster: 1000,
  nodes: 1000,
  queue: 1500,
  jobs: 2000,
  timeline: 2000,
  inbox: 2000,
};
/** Topic of single jobs: key ["job", ID, …]. */
export const JOB = "job";
const JOB_EVERY_MS = 500;

export class Staleness {
  readonly #invalidate: (key: Key) => void;
  readonly #due = new Map<string, Key>();
  readonly #sent_ms = new Map<string, number>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(invalidate: (key: Key) => void) {
    this.#invalidate = invalidate;
  }

  jobs(events: readonly JobEvent[]): void {
    for (const [topic, every_ms] of Object.entries(TOPICS)) this.#mark([topic], every_ms);
    for (const id of new Set(events.map((event) => event.job))) this.#mark([JOB, id], JOB_EVERY_MS);
  }

  /** Marks everything as stale, after a gap in the stream. */
  all(): void {
    this.#mark([], 1000);
  }

  /** Invalidates what became stale while the page was hidden. */
  flush(): void {
    for (const id of [...this.#due.keys()]) this.#send(id);
  }

  stop(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#due.clear();
  }

  #mark(key: Key, every_ms: number): void {
    const id = key.join("\n");
    this.#due.set(id, key);
    if (this.#timers.has(id)) return;
    const wait_ms = Math.max(0, (this.#sent_ms.get(id) ?? 0) + every_ms - Date.now());
    const due = () => {
      this.#timers.delete(id);
      if (!isHidden()) this.#send(id);
    };
    this.#timers.set(id, setTimeout(due, wait_ms));
  }

  #send(id: string): void {
    const key = this.#due.get(id);
    if (!key) return;
    this.#due.delete(id);
    this.#sent_ms.set(id, Date.now());
    if (this.#sent_ms.size > 1000) this.#sent_ms.clear(); // entries of ended jobs
    this.#invalidate(key);
  }
}

function isHidden(): boolean {
  return typeof document !== "undefined" && document.visibilityState === "hidden";
}
