// The only event stream of the dashboard. Events mark queries as stale, and pages fetch again. They carry no data to
// show, so a page is correct after a gap and no data is stored twice.
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
const MAX_WAIT_MS = 15_000;
const SILENCE_MS = 40_000; // the service sends a heartbeat every 15 s

let state: LiveState = "off";
const watchers = new Set<() => void>();
const listeners = new Set<(events: JobEvent[]) => void>();

/** Calls `listener` with batches of job events. Only for what cannot wait for the next fetch; most pages do not need it. */
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

function setState(next: LiveState): void {
  if (state === next) return;
  state = next;
  for (const watcher of watchers) watcher();
}

/** Runs until the returned function is called. */
export function startLive(queries: QueryClient): () => void {
  const stopped = new AbortController();
  const stale = new Staleness((key) => queries.invalidateQueries({ queryKey: key }));
  const onVisible = () => document.visibilityState === "visible" && stale.flush();
  document.addEventListener("visibilitychange", onVisible);
  void follow(stale, stopped.signal);
  return () => {
    stopped.abort();
    stale.stop();
    document.removeEventListener("visibilitychange", onVisible);
    setState("off");
  };
}

async function follow(stale: Staleness, stopped: AbortSignal): Promise<void> {
  let last = "";
  let wait_ms = FIRST_WAIT_MS;
  while (!stopped.aborted) {
    setState(state === "lost" ? "lost" : "connecting");
    try {
      for await (const events of stream(last, stopped)) {
        if (state === "lost") stale.all(); // for events missed while disconnected
        setState("live");
        wait_ms = FIRST_WAIT_MS;
        if (events.length === 0) continue;
        last = String(events.at(-1)!.id);
        stale.jobs(events);
        for (const listener of listeners) listener(events);
      }
    } catch {
      // retried below
    }
    if (stopped.aborted) return;
    setState("lost");
    await new Promise((done) => setTimeout(done, wait_ms * (0.75 + Math.random() / 2)));
    wait_ms = Math.min(MAX_WAIT_MS, wait_ms * 2);
  }
}

/** Yields events, and an empty list for a heartbeat. Ends when the stream ends or is silent for `SILENCE_MS`. */
async function* stream(last: string, stopped: AbortSignal): AsyncGenerator<JobEvent[]> {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE_MS);
  try {
    const headers: Record<string, string> = { Authorization: `Bearer ${session.token() ?? ""}` };
    if (last) headers["Last-Event-ID"] = last;
    const response = await fetch("/api/v1/events", { headers, signal: AbortSignal.any([stopped, silent.signal]) });
    if (response.status === 401) session.end("ended");
    if (!response.ok || !response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const messages = new Messages();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE_MS);
      yield messages.take(value).filter((message) => message.event === "job").map((message) => JSON.parse(message.data) as JobEvent);
    }
  } finally {
    clearTimeout(timer);
  }
}
