import { useEffect, useState } from "react";
import { fromNow, instant } from "../i18n/format";
import { useLanguage } from "../i18n";

/** An instant relative to now, updated regularly; date and time are in the tooltip. */
export function Time({ at_s }: { at_s: number }) {
  useLanguage();
  const now_s = useNow();
  return <time dateTime={new Date(at_s * 1000).toISOString()} title={instant(at_s)}>{fromNow(at_s, now_s)}</time>;
}

/** Seconds since 1970, updated every `every_ms`. */
export function useNow(every_ms = 5000): number {
  const [now_s, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), every_ms);
    return () => clearInterval(timer);
  }, [every_ms]);
  return now_s;
}
