import { type ReactNode, startTransition, useEffect, useRef, useState } from "react";

const MARGIN = "500px 0px";

/** Renders its content only near the viewport and keeps its height otherwise. For long pages. */
export function LazyBlock({ height_px, children }: { height_px: number; children: () => ReactNode }) {
  const block = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);
  const [known_px, setKnown] = useState(height_px);
  useEffect(() => {
    const element = block.current!;
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (!entry) return;
        if (!entry.isIntersecting && element.childElementCount > 0) setKnown(element.offsetHeight);
        startTransition(() => setNear(entry.isIntersecting));
      },
      { rootMargin: MARGIN },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return <div ref={block} style={isNear ? undefined : { height: known_px }}>{isNear && children()}</div>;
}
