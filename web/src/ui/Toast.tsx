import { useSyncExternalStore } from "react";
import { ApiError } from "../api/errors";
import { t, useT } from "../i18n";
import styles from "./Toast.module.css";

interface Note {
  id: number;
  tone: "good" | "bad";
  text: string;
}

const SHOWN_MS = 6000;
let notes: readonly Note[] = [];
let count = 0;
const listeners = new Set<() => void>();

/** A word at the edge of the page: what an action came to. */
export function toast(text: string, tone: Note["tone"] = "good"): void {
  const note = { id: ++count, tone, text };
  put([...notes.slice(-3), note]);
  setTimeout(() => put(notes.filter((one) => one.id !== note.id)), SHOWN_MS);
}

export function toastError(error: unknown): void {
  if (error instanceof ApiError) toast(error.cure ? `${error.message} – ${error.cure}` : error.message, "bad");
  else toast(t("common.offline"), "bad");
}

export function Toasts() {
  const say = useT();
  const shown = useSyncExternalStore(subscribe, () => notes);
  return (
    <div className={styles.toasts} role="status" aria-live="polite">
      {shown.map((note) => (
        <div key={note.id} className={styles.toast} data-tone={note.tone}>
          <span>{note.text}</span>
          <button type="button" aria-label={say("common.close")} onClick={() => put(notes.filter((one) => one !== note))}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}

function put(next: readonly Note[]): void {
  notes = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
