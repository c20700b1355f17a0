import { useSyncExternalStore } from "react";

const narrow = window.matchMedia("(max-width: 800px)"); // as in the style sheets

/** A phone, or a window as small as one. */
export function useIsNarrow(): boolean {
  return useSyncExternalStore(
    (changed) => {
      narrow.addEventListener("change", changed);
      return () => narrow.removeEventListener("change", changed);
    },
    () => narrow.matches,
  );
}
