// ONE stream of events for the whole page. It carries no data for the pages to show: it says what became stale, and
// pages ask again. So a page is right after a gap, and nothing is kept twice.
import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { session } from "../app/session";
import { Messages } from "./sse";
import { Staleness } from "./staleness";

export interface JobEvent {
  id: number;
  job: string;
  name: string;
  at_s: number;
  kind: string;
  state: string;
  attempt: number;
  cause: string;
}
export type LiveState = "off" | "connecting" | "live" | "lost";

const FIRST_WAIT_MS = 500;
const MOST_WAIT_MS = 15_000;
const SILENCE_MS = 40_000; // the service gives a sign of life every 15 s

let state: LiveState = "off";
const watchers = new Set<() => void>();
const listeners = new Set<(events: JobEvent[]) => void>();

/** Told of every job event, some at once. For what cannot wait for the next answer; most pages need nothing here. */
export function onJobEvents(listener: (events: JobEvent[]) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useLive(): LiveState {
  return useSyncExternalStore(watch, () => state);
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

function become(next: LiveState): void {
  if (state === next) return;
  state = next;
  for (const watcher of watchers) watcher();
}

/** Runs until the answer is called. */
export function startLive(queries: QueryClient): () => void {
  const stopped = new AbortController();
  const stale = new Staleness((key) => queries.invalidateQueries({ queryKey: key }));
  const seen = () => document.visibilityState === "visible" && stale.flush();
  document.addEventListener("visibilitychange", seen);
  void follow(stale, stopped.signal);
  return () => {
    stopped.abort();
    stale.stop();
    document.removeEventListener("visibilitychange", seen);
    become("off");
  };
}

async function follow(stale: Staleness, stopped: AbortSignal): Promise<void> {
  let last = "";
  let wait_ms = FIRST_WAIT_MS;
  while (!stopped.aborted) {
    become(state === "lost" ? "lost" : "connecting");
    try {
      for await (const events of stream(last, stopped)) {
        if (state === "lost") stale.all(); // whatever happened while nobody listened
        become("live");
        wait_ms = FIRST_WAIT_MS;
        if (events.length === 0) continue;
        last = String(events.at(-1)!.id);
        stale.jobs(events);
        for (const listener of listeners) listener(events);
      }
    } catch {
      // below: try again
    }
    if (stopped.aborted) return;
    become("lost");
    await new Promise((done) => setTimeout(done, wait_ms * (0.75 + Math.random() / 2)));
    wait_ms = Math.min(MOST_WAIT_MS, wait_ms * 2);
  }
}

/** Events as they come, an empty list for a sign of life. Ends when the stream does, or falls silent. */
async function* stream(last: string, stopped: AbortSignal): AsyncGenerator<JobEvent[]> {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE_MS);
  try {
    const headers: Record<string, string> = { Authorization: `Bearer ${session.token() ?? ""}` };
    if (last) headers["Last-Event-ID"] = last;
    const answer = await fetch("/api/v1/events", { headers, signal: AbortSignal.any([stopped, silent.signal]) });
    if (answer.status === 401) session.end("ended");
    if (!answer.ok || !answer.body) return;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const messages = new Messages();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE_MS);
      yield messages.take(value).filter((one) => one.event === "job").map((one) => JSON.parse(one.data) as JobEvent);
    }
  } finally {
    clearTimeout(timer);
  }
}
