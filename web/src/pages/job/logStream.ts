// One job's log as it is written: server-sent events read by fetch, which can carry the token in a header.
import { ApiError, toldIn } from "../../api/errors";
import { Messages } from "../../api/sse";
import { session } from "../../app/session";

export interface LogPart {
  task: number;
  attempt: number;
  text: string;
}
export type LogState = "connecting" | "live" | "ended" | "lost";

interface Told {
  onPart: (part: LogPart) => void;
  onState: (state: LogState) => void;
  onError: (error: ApiError) => void;
}

const PIECE = 16_384; // characters: read in a few milliseconds
const WAIT_MS = 2000;
const SILENCE_MS = 40_000; // the service gives a sign of life every 15 s

/** Runs until the job's end or until the answer is called. `tail`: begin with so many last lines; null: from the first. */
export function followLog(job: string, task: string, tail: number | null, told: Told): () => void {
  const stopped = new AbortController();
  void follow(job, task, tail, told, stopped.signal);
  return () => stopped.abort();
}

async function follow(job: string, task: string, tail: number | null, told: Told, stopped: AbortSignal): Promise<void> {
  let last = "";
  const seen = (id: string) => (last = id || last);
  while (!stopped.aborted) {
    told.onState(last ? "lost" : "connecting");
    try {
      if (await read(address(job, task, last ? null : tail), last, told, seen, stopped)) return told.onState("ended");
    } catch (error) {
      if (stopped.aborted) return;
      if (error instanceof ApiError && error.status < 500) return told.onError(error);
    }
    if (stopped.aborted) return;
    told.onState("lost");
    await new Promise((done) => setTimeout(done, WAIT_MS));
  }
}

function address(job: string, task: string, tail: number | null): string {
  const query = new URLSearchParams({ task });
  if (tail !== null) query.set("tail", String(tail));
  return `/api/v1/jobs/${encodeURIComponent(job)}/logs/stream?${query}`;
}

/** Whether the log is over. */
async function read(
  url: string, last: string, told: Told, seen: (id: string) => void, stopped: AbortSignal,
): Promise<boolean> {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE_MS);
  try {
    const headers: Record<string, string> = { Authorization: `Bearer ${session.token() ?? ""}` };
    if (last) headers["Last-Event-ID"] = last;
    const answer = await fetch(url, { headers, signal: AbortSignal.any([stopped, silent.signal]) });
    if (!answer.ok) throw new ApiError(answer.status, toldIn(await answer.json().catch(() => null)));
    told.onState("live");
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    const messages = new Messages();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return false;
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE_MS);
      for (const message of messages.take(value)) {
        if (message.event === "end") return true;
        if (message.event === "log") await inPieces(JSON.parse(message.data) as LogPart, told.onPart, stopped);
        seen(message.id);
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

/** A long part is handed on bit by bit, so that the page answers in between. */
async function inPieces(part: LogPart, onPart: (part: LogPart) => void, stopped: AbortSignal): Promise<void> {
  for (let at = 0; at < part.text.length && !stopped.aborted; at += PIECE) {
    if (at > 0) await new Promise((done) => setTimeout(done));
    if (!stopped.aborted) onPart({ ...part, text: part.text.slice(at, at + PIECE) });
  }
}
