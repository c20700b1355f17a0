// Which answers became stale, told no more often than a page can use it.
import type { JobEvent } from "./live";

type Key = readonly string[];

/** Topics are the first words of query keys. A job that changed makes these stale, at most so often (ms). */
export const TOPICS: Record<string, number> = {
  cluster: 1000,
  nodes: 1000,
  queue: 1500,
  jobs: 2000,
  timeline: 2000,
};
/** Of single jobs: key ["job", ID, …]. */
export const JOB = "job";
const JOB_EVERY_MS = 500;

export class Staleness {
  readonly #tell: (key: Key) => void;
  readonly #due = new Map<string, Key>();
  readonly #told_ms = new Map<string, number>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(tell: (key: Key) => void) {
    this.#tell = tell;
  }

  jobs(events: readonly JobEvent[]): void {
    for (const [topic, every_ms] of Object.entries(TOPICS)) this.#mark([topic], every_ms);
    for (const id of new Set(events.map((event) => event.job))) this.#mark([JOB, id], JOB_EVERY_MS);
  }

  /** After a gap: everything, once. */
  all(): void {
    this.#mark([], 1000);
  }

  /** Now, what waited while nobody looked. */
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
    const wait_ms = Math.max(0, (this.#told_ms.get(id) ?? 0) + every_ms - Date.now());
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
    this.#told_ms.set(id, Date.now());
    if (this.#told_ms.size > 1000) this.#told_ms.clear(); // of jobs long gone
    this.#tell(key);
  }
}

function isHidden(): boolean {
  return typeof document !== "undefined" && document.visibilityState === "hidden";
}
