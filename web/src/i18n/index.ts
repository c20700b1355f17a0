// Every text of the page, in both languages. Texts that many pages share are in en.ts and ko.ts; a page's own are in its
// folder's texts.ts and come with the page. TypeScript refuses a key that one of the languages lacks.
import { useSyncExternalStore } from "react";
import { en } from "./en";
import { ko } from "./ko";

export type Language = "en" | "ko";
export type Values = Record<string, string | number>;
export type Texts<K extends string = string> = Record<Language, Record<K, string>>;
export type Say<K extends string> = (key: K, values?: Values) => string;

const KEY = "gpusquad.language";
const listeners = new Set<() => void>();
let language: Language = "en";

/** A page's texts: `texts({ en: { title: "Queue" }, ko: { title: "대기열" } })`. */
export function texts<const K extends string>(both: { en: Record<K, string>; ko: Record<NoInfer<K>, string> }): Texts<K> {
  return both;
}

const common = texts({ en, ko });
export type CommonKey = keyof typeof en;

/** `const say = useTexts(mine)`, then `say("title")` or `say("rows", { n: 3 })` for "{n} rows". */
export function useTexts<K extends string>(of: Texts<K>): Say<K> {
  const now = useLanguage();
  return (key, values) => filled(of[now][key], values);
}

/** The texts that all pages share. */
export function useT(): Say<CommonKey> {
  return useTexts(common);
}

/** Outside of components. */
export function t(key: CommonKey, values?: Values): string {
  return filled(common[language][key], values);
}

export function filled(text: string, values: Values = {}): string {
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
    // storage is switched off: it lasts as long as the page
  }
  for (const listener of listeners) listener();
}

/** At start: as chosen before, else as the browser is set. */
export function openLanguage(): void {
  let kept: string | null = null;
  try {
    kept = localStorage.getItem(KEY);
  } catch {
    // as above
  }
  const wanted = kept ?? navigator.language.slice(0, 2);
  language = wanted === "ko" ? "ko" : "en";
  document.documentElement.lang = language;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
