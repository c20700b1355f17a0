// All texts of the dashboard, in both languages. Texts of several pages are in en.ts and ko.ts; those of one page are in
// its texts.ts and are loaded with the page. A key that is missing in one language is a TypeScript error.
import { useSyncExternalStore } from "react";
import { en } from "./en";
import { ko } from "./ko";

export type Language = "en" | "ko";
export type Values = Record<string, string | number>;
export type Texts<K extends string = string> = Record<Language, Record<K, string>>;
export type Translate<K extends string> = (key: K, values?: Values) => string;

const KEY = "gpusquad.language";
const listeners = new Set<() => void>();
let language: Language = "en";

/** A page's texts: `texts({ en: { title: "Queue" }, ko: { title: "대기열" } })`. */
export function texts<const K extends string>(both: { en: Record<K, string>; ko: Record<NoInfer<K>, string> }): Texts<K> {
  return both;
}

const common = texts({ en, ko });
export type CommonKey = keyof typeof en;

/** `const t = useTexts(text)`, then `t("title")` or `t("rows", { n: 3 })` for "{n} rows". */
export function useTexts<K extends string>(texts: Texts<K>): Translate<K> {
  const now = useLanguage();
  return (key, values) => fill(texts[now][key], values);
}

/** The texts that all pages share. */
export function useT(): Translate<CommonKey> {
  return useTexts(common);
}

/** For use outside of components. */
export function translate(key: CommonKey, values?: Values): string {
  return fill(common[language][key], values);
}

export function fill(text: string, values: Values = {}): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}

export function useLanguage(): Language {
  return useSyncExternalStore(subscribe, () => language);
}

export function currentLanguage(): Language {
  return language;
}

export function setLanguage(next: Language): void {
  language = next;
  document.documentElement.lang = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // storage is disabled: the choice is lost with the page
  }
  for (const listener of listeners) listener();
}

/** Runs at start: uses the stored language, otherwise the browser's. */
export function openLanguage(): void {
  let stored: string | null = null;
  try {
    stored = localStorage.getItem(KEY);
  } catch {
    // storage is disabled
  }
  const preferred = stored ?? navigator.language.slice(0, 2);
  language = preferred === "ko" ? "ko" : "en";
  document.documentElement.lang = language;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
