// Light or dark: as the system says, or as chosen. Written on the root element; tokens.css does the rest.
import { useSyncExternalStore } from "react";

export type Theme = "auto" | "light" | "dark";
const KEY = "gpusquad.theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let theme: Theme = "auto";

export function openTheme(): void {
  try {
    const kept = localStorage.getItem(KEY);
    if (kept === "light" || kept === "dark") theme = kept;
  } catch {
    // storage is switched off: as the system says
  }
  dark.addEventListener("change", apply);
  apply();
}

export function setTheme(next: Theme): void {
  theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // it lasts as long as the page
  }
  apply();
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

/** What is shown now. Charts draw their own colours and ask here. */
export function useIsDark(): boolean {
  return useSyncExternalStore(subscribe, () => document.documentElement.dataset.theme === "dark");
}

function apply(): void {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
