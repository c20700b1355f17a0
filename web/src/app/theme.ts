// Light or dark theme: the system's or the chosen one. It is set on the root element, where tokens.css reads it.
import { useSyncExternalStore } from "react";

export type Theme = "auto" | "light" | "dark";
const KEY = "gpusquad.theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();
let theme: Theme = "auto";

export function openTheme(): void {
  try {
    const stored = localStorage.getItem(KEY);
    if (stored === "light" || stored === "dark") theme = stored;
  } catch {
    // storage is disabled: use the system's theme
  }
  dark.addEventListener("change", apply);
  apply();
}

export function setTheme(next: Theme): void {
  theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // storage is disabled: the choice is lost with the page
  }
  apply();
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

/** Whether the dark theme is shown now. For charts, which draw their own colours. */
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
