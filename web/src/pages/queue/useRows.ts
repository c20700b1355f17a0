// The whole queue in the browser. A short queue is one answer, renewed at every event. Of a long one the first rows are
// that fresh; the rest is walked through page by page, at a pace that costs the service little.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { api, need } from "../../api/client";
import { onJobEvents } from "../../api/live";
import { joined, type Row } from "./rows";

const HEAD_ROWS = 500;
const PAGE_ROWS = 1000;
const WALK_EVERY_MS = 15_000;
const WALK_REST = 10; // times as long as the last walk took
const ENDED = new Set(["succeeded", "failed", "cancelled", "timed_out"]);
const NONE: readonly Row[] = [];

export function useRows() {
  const head = useHead();
  const held = useHeld((head.data?.counts.held ?? 0) > 0);
  const walk = useWalk(head.data?.next != null);
  const gone = useGone(walk.dataUpdatedAt);
  const all = walk.rows;
  const rows = useMemo(
    () =>
      joined({
        running: head.data?.running ?? NONE, head: head.data?.items ?? NONE, held: held.data?.items ?? NONE,
        all: head.data?.next == null ? NONE : all, gone,
      }),
    [head.data, held.data, all, gone],
  );
  return { rows, counts: head.data?.counts, error: head.error, isLoading: head.isPending, refetch: head.refetch };
}

function useHead() {
  return useQuery({
    queryKey: ["queue", "head"],
    queryFn: () => need(api.GET("/api/v1/queue", { params: { query: { limit: HEAD_ROWS } } })),
    refetchInterval: 10_000, // forecasts change without events
    structuralSharing: false, // comparing is dearer than drawing forty rows
  });
}

function useHeld(isAny: boolean) {
  return useQuery({
    queryKey: ["queue", "held"],
    queryFn: () => need(api.GET("/api/v1/jobs", { params: { query: { state: ["held"], limit: PAGE_ROWS } } })),
    enabled: isAny,
    structuralSharing: false,
  });
}

/** All pages, one after another; while the first walk goes on, what it has so far. */
function useWalk(isLong: boolean) {
  const queries = useQueryClient();
  const took_ms = useRef(0);
  const [soFar, setSoFar] = useState<readonly Row[]>(NONE);
  const { data, dataUpdatedAt } = useQuery({
    queryKey: ["queue-all"],
    enabled: isLong,
    structuralSharing: false,
    staleTime: WALK_EVERY_MS,
    refetchInterval: () => Math.max(WALK_EVERY_MS, took_ms.current * WALK_REST),
    queryFn: async ({ signal }) => {
      const began_ms = performance.now();
      const isFirst = queries.getQueryData(["queue-all"]) === undefined;
      const found: Row[] = [];
      let cursor: string | undefined;
      do {
        const query = { limit: PAGE_ROWS, ...(cursor ? { cursor } : {}) };
        const page = await need(api.GET("/api/v1/queue", { params: { query }, signal }));
        found.push(...page.items);
        if (isFirst) setSoFar([...found]);
        cursor = page.next ?? undefined;
      } while (cursor);
      took_ms.current = performance.now() - began_ms;
      return found as readonly Row[];
    },
  });
  return { rows: data ?? soFar, dataUpdatedAt };
}

/** Jobs that ended after the last walk. */
function useGone(walked_ms: number): ReadonlySet<string> {
  const [gone, setGone] = useState<ReadonlySet<string>>(new Set<string>());
  useEffect(() => {
    setGone((before) => (before.size ? new Set() : before));
    return onJobEvents((events) => {
      const ended = events.filter((event) => ENDED.has(event.state)).map((event) => event.job);
      if (ended.length) setGone((before) => new Set([...before, ...ended]));
    });
  }, [walked_ms]);
  return gone;
}
