import { useSyncExternalStore } from "react";

const narrow = window.matchMedia("(max-width: 800px)"); // same limit as in the style sheets

/** Whether the window is as narrow as a phone. */
export function useIsNarrow(): boolean {
  return useSyncExternalStore(
    (changed) => {
      narrow.addEventListener("change", changed);
      return () => narrow.removeEventListener("change", changed);
    },
    () => narrow.matches,
  );
}
