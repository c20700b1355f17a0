// The token lives in this tab's sessionStorage and goes out as a header only: no cookie, so nothing to forge.
import { useSyncExternalStore } from "react";

const KEY = "gpusquad.token";
const SHAPE = /^gsq_[a-z2-7]{52}$/;
export type Ending = "" | "ended" | "left";

let token: string | null = null;
let ending: Ending = "";
const listeners = new Set<() => void>();

function changed(): void {
  for (const listener of listeners) listener();
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null; // storage is switched off: the token lasts as long as the page
  }
}

export const session = {
  token: () => token,
  ending: () => ending,

  begin(given: string): void {
    token = given.trim();
    ending = "";
    try {
      sessionStorage.setItem(KEY, token);
    } catch {
      // as above
    }
    changed();
  },

  end(how: Ending): void {
    token = null;
    ending = how;
    try {
      sessionStorage.removeItem(KEY);
    } catch {
      // as above
    }
    changed();
  },

  /** At start: a token in the address (`#token=…`) goes out of it before anything else happens. */
  open(place: Location, past: History): void {
    const given = new URLSearchParams(place.hash.slice(1)).get("token");
    if (given !== null) past.replaceState(past.state, "", place.pathname + place.search);
    if (given !== null && looksLikeToken(given)) session.begin(given);
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
