// The whole queue. A short queue is one response, fetched again after every event. Of a long one only the first rows
// are; the rest is fetched page by page at a rate that puts little load on the service.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { api, need } from "../../api/client";
import { onJobEvents } from "../../api/live";
import { joined, type Row } from "./rows";

const HEAD_ROWS = 500;
const PAGE_ROWS = 1000;
const ALL_PAGES_MS = 15_000;
const PAUSE_FACTOR = 10; // pause after a fetch of all pages, in multiples of its duration
const FINAL_STATES = new Set(["succeeded", "failed", "cancelled", "timed_out"]);
const NO_ROWS: readonly Row[] = [];

export function useRows() {
  const head = useHead();
  const held = useHeld((head.data?.counts.held ?? 0) > 0);
  const pages = useAllPages(head.data?.next != null);
  const ended = useEnded(pages.dataUpdatedAt);
  const all = pages.rows;
  const rows = useMemo(
    () =>
      joined({
        running: head.data?.running ?? NO_ROWS, head: head.data?.items ?? NO_ROWS, held: held.data?.items ?? NO_ROWS,
        all: head.data?.next == null ? NO_ROWS : all, ended,
      }),
    [head.data, held.data, all, ended],
  );
  return { rows, counts: head.data?.counts, error: head.error, isLoading: head.isPending, refetch: head.refetch };
}

function useHead() {
  return useQuery({
    queryKey: ["queue", "head"],
    queryFn: () => need(api.GET("/api/v1/queue", { params: { query: { limit: HEAD_ROWS } } })),
    refetchInterval: 10_000, // forecasts change without events
    structuralSharing: false, // comparing costs more than rendering forty rows
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

/** All pages, fetched one after another. During the first fetch, the rows so far. */
function useAllPages(isLong: boolean) {
  const queries = useQueryClient();
  const took_ms = useRef(0);
  const [partial, setPartial] = useState<readonly Row[]>(NO_ROWS);
  const { data, dataUpdatedAt } = useQuery({
    queryKey: ["queue-all"],
    enabled: isLong,
    structuralSharing: false,
    staleTime: ALL_PAGES_MS,
    refetchInterval: () => Math.max(ALL_PAGES_MS, took_ms.current * PAUSE_FACTOR),
    queryFn: async ({ signal }) => {
      const start_ms = performance.now();
      const isFirst = queries.getQueryData(["queue-all"]) === undefined;
      const found: Row[] = [];
      let cursor: string | undefined;
      do {
        const query = { limit: PAGE_ROWS, ...(cursor ? { cursor } : {}) };
        const page = await need(api.GET("/api/v1/queue", { params: { query }, signal }));
        found.push(...page.items);
        if (isFirst) setPartial([...found]);
        cursor = page.next ?? undefined;
      } while (cursor);
      took_ms.current = performance.now() - start_ms;
      return found as readonly Row[];
    },
  });
  return { rows: data ?? partial, dataUpdatedAt };
}

/** Jobs that ended after the last fetch of all pages. */
function useEnded(fetched_ms: number): ReadonlySet<string> {
  const [ended, setEnded] = useState<ReadonlySet<string>>(new Set<string>());
  useEffect(() => {
    setEnded((before) => (before.size ? new Set() : before));
    return onJobEvents((events) => {
      const jobs = events.filter((event) => FINAL_STATES.has(event.state)).map((event) => event.job);
      if (jobs.length) setEnded((before) => new Set([...before, ...jobs]));
    });
  }, [fetched_ms]);
  return ended;
}
