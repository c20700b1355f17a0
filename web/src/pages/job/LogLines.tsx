import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useRef } from "react";
import type { Span } from "./ansi";
import styles from "./Logs.module.css";
import type { LogStore } from "./logStore";
import { paint } from "./paint";

const LINE_PX = 18;
const NEAR_PX = 24;
const PAD_PX = 8;
const BAR_PX = 14; // horizontal scroll bar

interface Props {
  store: LogStore;
  label: string;
  empty: string;
  hasTasks: boolean;
  isFollowing: boolean;
  onFollow: (isFollowing: boolean) => void;
}

/** Renders only the visible lines of a log of any length. */
export function LogLines({ store, label, empty, hasTasks, isFollowing, onFollow }: Props) {
  const container = useRef<HTMLDivElement>(null);
  const { lines, dropped } = store;
  const rows = useVirtualizer({
    count: lines.length, getScrollElement: () => container.current, estimateSize: () => LINE_PX, overscan: 20,
    paddingStart: PAD_PX, paddingEnd: PAD_PX,
  });
  const version = store.version();
  useEffect(() => {
    const element = container.current;
    if (isFollowing && element) element.scrollTop = element.scrollHeight;
  }, [isFollowing, version, lines.length]);
  // Scrolling up stops following the log; scrolling to the end resumes it.
  const previous = useRef(0);
  const scrolled = () => {
    const element = container.current!;
    const isUp = element.scrollTop < previous.current - 1;
    previous.current = element.scrollTop;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
    if (isFollowing && isUp && !isAtEnd) onFollow(false);
    else if (!isFollowing && isAtEnd && !isUp) onFollow(true);
  };
  return (
    <div
      ref={container} className={styles.log} role="log" aria-live="off" aria-label={label} tabIndex={0} onScroll={scrolled}
      style={{ height: rows.getTotalSize() + 2 + BAR_PX }}
    >
      {lines.length === 0 && <p className={styles.empty}>{empty}</p>}
      <div className={styles.lines} style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const line = lines[row.index]!;
          return (
            <div key={row.index + dropped} className={styles.line} style={{ transform: `translateY(${row.start}px)` }}>
              {hasTasks && <span className={styles.task}>{line.task}</span>}
              <Text spans={line.spans} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

const Text = memo(function Text({ spans }: { spans: Span[] }) {
  return spans.map((span, n) => {
    const { isBold, isDim, isItalic, isUnderlined } = span.style;
    const marks = [isBold && "bold", isDim && "dim", isItalic && "italic", isUnderlined && "underlined"].filter(Boolean).join(" ");
    return <span key={n} data-marks={marks || undefined} style={paint(span.style)}>{span.text}</span>;
  });
});
