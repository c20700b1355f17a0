// What several pages ask for. A key's first word is its topic: see staleness.ts for the topics that job events renew.
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

/** All cards in a few numbers. */
export function useCluster() {
  return useQuery({ queryKey: ["cluster"], queryFn: () => need(api.GET("/api/v1/cluster")), refetchInterval: 10_000 });
}

/** Machines with their cards. How busy cards are changes without any event, so it is asked for now and then. */
export function useNodes() {
  return useQuery({ queryKey: ["nodes"], queryFn: () => need(api.GET("/api/v1/nodes")), refetchInterval: 3_000 });
}
