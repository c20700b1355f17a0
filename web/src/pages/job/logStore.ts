// Log lines of all tasks of a job, in the order in which they started. Stored outside of React, so that thousands of
// lines per second do not cause thousands of renders.
import { type Span, Terminal } from "./ansi";

export interface LogLine {
  task: number;
  attempt: number;
  spans: Span[];
}

export const MAX_LINES = 100_000;

export class LogStore {
  #lines: LogLine[] = [];
  #dropped = 0;
  #version = 0;
  #isNotified = true;
  readonly #terminals = new Map<string, Terminal>();
  readonly #listeners = new Set<() => void>();
  readonly #schedule: (notify: () => void) => void;

  constructor(schedule: (notify: () => void) => void = (notify) => void requestAnimationFrame(notify)) {
    this.#schedule = schedule;
  }

  get lines(): readonly LogLine[] {
    return this.#lines;
  }

  /** Number of lines dropped from the start. */
  get dropped(): number {
    return this.#dropped;
  }

  add(task: number, attempt: number, text: string): void {
    this.#terminal(task, attempt).write(text);
    // Dropped in batches, so that a long log is not copied for each new line.
    if (this.#lines.length > MAX_LINES * 1.1) {
      const excess = this.#lines.length - MAX_LINES;
      this.#lines = this.#lines.slice(excess);
      this.#dropped += excess;
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
    const existing = this.#terminals.get(key);
    if (existing) return existing;
    let line: LogLine | null = null;
    const made = new Terminal((spans, isNew) => {
      if (isNew || line === null) this.#lines.push((line = { task, attempt, spans }));
      else line.spans = spans;
    });
    this.#terminals.set(key, made);
    return made;
  }

  #changed(): void {
    if (!this.#isNotified) return;
    this.#isNotified = false;
    this.#schedule(() => {
      this.#isNotified = true;
      this.#version++;
      for (const listener of this.#listeners) listener();
    });
  }
}
