import { useSyncExternalStore } from "react";
import { ApiError } from "../api/errors";
import { translate, useT } from "../i18n";
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

/** Shows a short message about the result of an action. */
export function toast(text: string, tone: Note["tone"] = "good"): void {
  const note = { id: ++count, tone, text };
  setNotes([...notes.slice(-3), note]);
  setTimeout(() => setNotes(notes.filter((other) => other.id !== note.id)), SHOWN_MS);
}

export function toastError(error: unknown): void {
  if (error instanceof ApiError) toast(error.cure ? `${error.message} – ${error.cure}` : error.message, "bad");
  else toast(translate("common.offline"), "bad");
}

export function Toasts() {
  const t = useT();
  const shown = useSyncExternalStore(subscribe, () => notes);
  return (
    <div className={styles.toasts} role="status" aria-live="polite">
      {shown.map((note) => (
        <div key={note.id} className={styles.toast} data-tone={note.tone}>
          <span>{note.text}</span>
          <button type="button" aria-label={t("common.close")} onClick={() => setNotes(notes.filter((other) => other !== note))}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}

function setNotes(next: readonly Note[]): void {
  notes = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
