// Queries of several pages. The first word of a key is its topic; staleness.ts lists the topics that events make stale.
import { QueryClient, useQuery } from "@tanstack/react-query";
import { api, need } from "./client";
import { ApiError } from "./errors";

export function makeQueries(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (count, error) => count < 2 && !(error instanceof ApiError && error.status < 500),
        refetchOnWindowFocus: true,
      },
    },
  });
}

export function useMe() {
  return useQuery({ queryKey: ["me"], queryFn: () => need(api.GET("/api/v1/me")), staleTime: 60_000 });
}

/** Number of unread notices of the user. */
export function useUnread() {
  return useQuery({
    queryKey: ["inbox", "unread"], queryFn: () => need(api.GET("/api/v1/inbox", { params: { query: { limit: 1 } } })),
    select: (page) => page.unread, refetchInterval: 60_000,
  });
}

/** Summary of all cards. */
export function useCluster() {
  return useQuery({ queryKey: ["cluster"], queryFn: () => need(api.GET("/api/v1/cluster")), refetchInterval: 10_000 });
}

/** Nodes with their cards. Polled, because utilisation changes without events. */
export function useNodes() {
  return useQuery({ queryKey: ["nodes"], queryFn: () => need(api.GET("/api/v1/nodes")), refetchInterval: 3_000 });
}
