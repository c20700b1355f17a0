import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, need } from "../../api/client";
import type { View } from "./scale";

const AGAIN_MS = 15_000; // expected ends move with progress, without any event

export function useTimeline(asked: View) {
  return useQuery({
    queryKey: ["timeline", asked.from_s, asked.to_s],
    queryFn: () => need(api.GET("/api/v1/timeline", { params: { query: asked } })),
    placeholderData: keepPreviousData,
    refetchInterval: AGAIN_MS,
  });
}

/** Which cards there are. Not under the topic "nodes": how busy they are is of no interest here. */
export function useRows() {
  return useQuery({
    queryKey: ["rows"],
    queryFn: () => need(api.GET("/api/v1/nodes")),
    select: (page) => page.items,
    staleTime: 60_000,
    refetchInterval: 60_000,
  });
}
