// Live log of a job: server-sent events read with fetch, which can send the token in a header.
import { ApiError, errorInBody } from "../../api/errors";
import { Messages } from "../../api/sse";
import { session } from "../../app/session";

export interface LogPart {
  task: number;
  attempt: number;
  text: string;
}
export type LogState = "connecting" | "live" | "ended" | "lost";

interface LogHandlers {
  onPart: (part: LogPart) => void;
  onState: (state: LogState) => void;
  onError: (error: ApiError) => void;
}

const CHUNK_CHARS = 16_384; // parsed in a few milliseconds
const WAIT_MS = 2000;
const SILENCE_MS = 40_000; // the service sends a heartbeat every 15 s

/** Runs until the job ends or the returned function is called. `tail`: number of last lines to start with; null: all. */
export function followLog(job: string, task: string, tail: number | null, handlers: LogHandlers): () => void {
  const stopped = new AbortController();
  void follow(job, task, tail, handlers, stopped.signal);
  return () => stopped.abort();
}

async function follow(job: string, task: string, tail: number | null, handlers: LogHandlers, stopped: AbortSignal): Promise<void> {
  let last = "";
  const setLast = (id: string) => (last = id || last);
  while (!stopped.aborted) {
    handlers.onState(last ? "lost" : "connecting");
    try {
      if (await read(address(job, task, last ? null : tail), last, handlers, setLast, stopped)) return handlers.onState("ended");
    } catch (error) {
      if (stopped.aborted) return;
      if (error instanceof ApiError && error.status < 500) return handlers.onError(error);
    }
    if (stopped.aborted) return;
    handlers.onState("lost");
    await new Promise((done) => setTimeout(done, WAIT_MS));
  }
}

function address(job: string, task: string, tail: number | null): string {
  const query = new URLSearchParams({ task });
  if (tail !== null) query.set("tail", String(tail));
  return `/api/v1/jobs/${encodeURIComponent(job)}/logs/stream?${query}`;
}

/** Reads the stream; returns true if the log is complete. */
async function read(
  url: string, last: string, handlers: LogHandlers, setLast: (id: string) => void, stopped: AbortSignal,
): Promise<boolean> {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE_MS);
  try {
    const headers: Record<string, string> = { Authorization: `Bearer ${session.token() ?? ""}` };
    if (last) headers["Last-Event-ID"] = last;
    const response = await fetch(url, { headers, signal: AbortSignal.any([stopped, silent.signal]) });
    if (!response.ok) throw new ApiError(response.status, errorInBody(await response.json().catch(() => null)));
    handlers.onState("live");
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const messages = new Messages();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return false;
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE_MS);
      for (const message of messages.take(value)) {
        if (message.event === "end") return true;
        if (message.event === "log") await inChunks(JSON.parse(message.data) as LogPart, handlers.onPart, stopped);
        setLast(message.id);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Passes a long text on in chunks, so that the page stays responsive. */
async function inChunks(part: LogPart, onPart: (part: LogPart) => void, stopped: AbortSignal): Promise<void> {
  for (let at = 0; at < part.text.length && !stopped.aborted; at += CHUNK_CHARS) {
    if (at > 0) await new Promise((done) => setTimeout(done));
    if (!stopped.aborted) onPart({ ...part, text: part.text.slice(at, at + CHUNK_CHARS) });
  }
}
