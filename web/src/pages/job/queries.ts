import { useQuery } from "@tanstack/react-query";
import { api, need, type Schemas } from "../../api/client";

export type Job = Schemas["JobDetail"];
export type When = Schemas["WhenView"];
export type StoryLine = Schemas["StoryLine"];

const OVER = new Set(["succeeded", "failed", "cancelled", "timed_out"]);
const ON_CARDS = new Set(["starting", "running", "stopping", "preempting", "lost"]);
const REFETCH_MS = 5_000;
const PAGE_LINES = 1000;

export const isOver = (job: Pick<Job, "state">) => OVER.has(job.state);
export const isWaiting = (job: Pick<Job, "state">) => job.state === "pending" || job.state === "held";
export const isOnCards = (job: Pick<Job, "state">) => ON_CARDS.has(job.state);

/** A running job is polled, because progress changes without events. */
export function useJob(id: string) {
  return useQuery({
    queryKey: ["job", id],
    queryFn: () => need(api.GET("/api/v1/jobs/{job}", { params: { path: { job: id } } })),
    refetchInterval: (query) => (query.state.data && isOnCards(query.state.data) ? REFETCH_MS : false),
  });
}

export function useWhen(job: Job) {
  return useQuery({
    queryKey: ["job", job.id, "when"],
    queryFn: () => need(api.GET("/api/v1/jobs/{job}/when", { params: { path: { job: job.id } } })),
    refetchInterval: isOver(job) ? false : 2 * REFETCH_MS,
    enabled: !isOver(job),
  });
}

export function useWhy(job: Job) {
  return useQuery({
    queryKey: ["job", job.id, "why"],
    queryFn: () => need(api.GET("/api/v1/jobs/{job}/why", { params: { path: { job: job.id } } })),
    refetchInterval: 2 * REFETCH_MS,
    enabled: isWaiting(job),
  });
}

/** All events of the job, from all pages. */
export function useStory(id: string) {
  return useQuery({ queryKey: ["job", id, "story"], queryFn: () => wholeStory(id) });
}

async function wholeStory(id: string): Promise<StoryLine[]> {
  const lines: StoryLine[] = [];
  for (let cursor = 0; ; ) {
    const query = { limit: PAGE_LINES, cursor };
    const page = await need(api.GET("/api/v1/jobs/{job}/story", { params: { path: { job: id }, query } }));
    lines.push(...page.items);
    if (!page.next) return lines;
    cursor = Number(page.next);
  }
}

export function useNeighbours(job: Job) {
  return useQuery({
    queryKey: ["job", job.id, "neighbours"],
    queryFn: () => need(api.GET("/api/v1/jobs/{job}/neighbours", { params: { path: { job: job.id } } })),
    refetchInterval: 2 * REFETCH_MS,
    enabled: isOnCards(job),
  });
}

/** Entries of the user's inbox about the job or its batch. */
export function useInboxEntries(id: string) {
  return useQuery({
    queryKey: ["job", id, "inbox"],
    queryFn: () => need(api.GET("/api/v1/inbox", { params: { query: { job: id } } })),
    select: (page) => page.items,
  });
}

/** Latest deliveries to the user's channels about the job, filtered here because the service has no filter by job. */
export function useDeliveries(id: string) {
  return useQuery({
    queryKey: ["job", id, "notices"],
    queryFn: () => need(api.GET("/api/v1/notices/outbox", { params: { query: { limit: 500 } } })),
    select: (page) => page.items.filter((notice) => notice.job === id),
  });
}
