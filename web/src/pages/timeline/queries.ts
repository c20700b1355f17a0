import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, need } from "../../api/client";
import type { View } from "./scale";

const REFETCH_MS = 15_000; // predicted ends change with progress, without events

export function useTimeline(range: View) {
  return useQuery({
    queryKey: ["timeline", range.from_s, range.to_s],
    queryFn: () => need(api.GET("/api/v1/timeline", { params: { query: range } })),
    placeholderData: keepPreviousData,
    refetchInterval: REFETCH_MS,
  });
}

/** The cards. Not under the topic "nodes", because utilisation is not shown here. */
export function useRows() {
  return useQuery({
    queryKey: ["rows"],
    queryFn: () => need(api.GET("/api/v1/nodes")),
    select: (page) => page.items,
    staleTime: 60_000,
    refetchInterval: 60_000,
  });
}
