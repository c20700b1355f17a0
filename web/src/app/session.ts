// The token is stored in this tab's sessionStorage and sent as a header. There is no cookie, so no CSRF.
import { useSyncExternalStore } from "react";

const KEY = "gpusquad.token";
const SHAPE = /^gsq_[a-z2-7]{52}$/;
export type Ending = "" | "ended" | "left";

let token: string | null = null;
let ending: Ending = "";
const listeners = new Set<() => void>();

function notify(): void {
  for (const listener of listeners) listener();
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null; // storage is disabled: the token is lost with the page
  }
}

export const session = {
  token: () => token,
  ending: () => ending,

  start(given: string): void {
    token = given.trim();
    ending = "";
    try {
      sessionStorage.setItem(KEY, token);
    } catch {
      // storage is disabled
    }
    notify();
  },

  end(cause: Ending): void {
    token = null;
    ending = cause;
    try {
      sessionStorage.removeItem(KEY);
    } catch {
      // storage is disabled
    }
    notify();
  },

  /** Runs first at start: takes a token out of the address (`#token=…`). */
  open(address: Location, history: History): void {
    const given = new URLSearchParams(address.hash.slice(1)).get("token");
    if (given !== null) history.replaceState(history.state, "", address.pathname + address.search);
    if (given !== null && looksLikeToken(given)) session.start(given);
    else token = stored();
  },

  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

export function looksLikeToken(text: string): boolean {
  return SHAPE.test(text.trim());
}

export function useToken(): string | null {
  return useSyncExternalStore(session.subscribe, session.token);
}
