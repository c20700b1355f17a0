import { useQuery } from "@tanstack/react-query";
import { api, need, type Schemas } from "../../api/client";

export type Policy = Schemas["PolicyView"];
export type Request = Schemas["PolicyRequest"];
export type Preview = Schemas["PreviewView"];
export type Goals = Schemas["GoalsView"];
export type CardDivision = Schemas["CardDivision"];

export function usePolicy() {
  return useQuery({ queryKey: ["policy"], queryFn: () => need(api.GET("/api/v1/policy")), refetchInterval: 15_000 });
}

export function useRevisions() {
  return useQuery({
    queryKey: ["policy", "revisions"],
    queryFn: () => need(api.GET("/api/v1/policy/revisions", { params: { query: { limit: 50 } } })),
  });
}

export function useGoals() {
  return useQuery({ queryKey: ["goals"], queryFn: () => need(api.GET("/api/v1/goals")), refetchInterval: 15_000 });
}

export function useCards() {
  return useQuery({ queryKey: ["cards"], queryFn: () => need(api.GET("/api/v1/cards")), refetchInterval: 15_000 });
}

/** Current state of one card. */
export function useCard(card: string) {
  return useQuery({
    queryKey: ["cards", card],
    queryFn: () => need(api.GET("/api/v1/cards/{card}", { params: { path: { card } } })),
    refetchInterval: 3_000,
  });
}

/** Names by id of the jobs on the first page of the queue. */
export function useNames(): ReadonlyMap<string, string> {
  const queue = useQuery({
    queryKey: ["queue", "names"],
    queryFn: () => need(api.GET("/api/v1/queue", { params: { query: { limit: 500 } } })),
    select: (page) => new Map([...page.items, ...page.running].map((job) => [job.id, job.name])),
  });
  return queue.data ?? NO_NAMES;
}

const NO_NAMES: ReadonlyMap<string, string> = new Map();
