// The lines of a job's log, of all its tasks, in the order in which they began. Kept outside of React: thousands of lines
// a second must not paint thousands of times.
import { type Span, Terminal } from "./ansi";

export interface LogLine {
  task: number;
  attempt: number;
  spans: Span[];
}

export const MOST_LINES = 100_000;

export class LogStore {
  #lines: LogLine[] = [];
  #dropped = 0;
  #version = 0;
  #isTold = true;
  readonly #terminals = new Map<string, Terminal>();
  readonly #listeners = new Set<() => void>();
  readonly #later: (tell: () => void) => void;

  constructor(later: (tell: () => void) => void = (tell) => void requestAnimationFrame(tell)) {
    this.#later = later;
  }

  get lines(): readonly LogLine[] {
    return this.#lines;
  }

  /** Lines that were let go from the beginning. */
  get dropped(): number {
    return this.#dropped;
  }

  add(task: number, attempt: number, text: string): void {
    this.#terminal(task, attempt).write(text);
    // Some at once, so that a long log does not move all lines for each new one.
    if (this.#lines.length > MOST_LINES * 1.1) {
      const over = this.#lines.length - MOST_LINES;
      this.#lines = this.#lines.slice(over);
      this.#dropped += over;
    }
    this.#changed();
  }

  clear(): void {
    this.#lines = [];
    this.#dropped = 0;
    this.#terminals.clear();
    this.#changed();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  version = (): number => this.#version;

  #terminal(task: number, attempt: number): Terminal {
    const key = `${attempt}/${task}`;
    const known = this.#terminals.get(key);
    if (known) return known;
    let line: LogLine | null = null;
    const made = new Terminal((spans, isNew) => {
      if (isNew || line === null) this.#lines.push((line = { task, attempt, spans }));
      else line.spans = spans;
    });
    this.#terminals.set(key, made);
    return made;
  }

  #changed(): void {
    if (!this.#isTold) return;
    this.#isTold = false;
    this.#later(() => {
      this.#isTold = true;
      this.#version++;
      for (const listener of this.#listeners) listener();
    });
  }
}
