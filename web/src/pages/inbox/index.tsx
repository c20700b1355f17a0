import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, need } from "../../api/client";
import { useTexts } from "../../i18n";
import { count } from "../../i18n/format";
import { Button } from "../../ui/Button";
import { Empty } from "../../ui/Empty";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { Segments } from "../../ui/Segments";
import { toastError } from "../../ui/Toast";
import { Entry } from "./Entry";
import styles from "./Inbox.module.css";
import { text } from "./texts";

type Which = "all" | "unread";
const WHICH = ["all", "unread"] as const;
const PER_PAGE = 50;

/** Notices about the user's jobs. */
export default function InboxPage() {
  const t = useTexts(text);
  const [which, setWhich] = useState<Which>("all");
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInbox(which);
  const mark = useMarkRead();
  const entries = data?.pages.flatMap((page) => page.items) ?? [];
  const unread = data?.pages[0]?.unread ?? 0;
  const newest = entries[0]?.id;
  return (
    <>
      <PageHead title={t("title")} note={data && t("note", { n: count(unread) })}>
        <Segments label={t("which")} value={which} onChange={setWhich} options={WHICH.map((option) => [option, t(`which.${option}`)] as const)} />
        <Button disabled={unread === 0 || newest === undefined || mark.isPending} onClick={() => mark.mutate({ ids: [], up_to: newest! })}>
          {t("readAll")}
        </Button>
      </PageHead>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {isPending && <Loading />}
      {data && entries.length === 0 && (which === "all" ? <Empty text={t("empty")} detail={t("emptyDetail")} /> : <Empty text={t("emptyUnread")} />)}
      {entries.length > 0 && (
        <ul className={styles.list} aria-label={t("list")}>
          {entries.map((entry) => <Entry key={entry.id} entry={entry} onRead={() => mark.mutate({ ids: [entry.id] })} />)}
        </ul>
      )}
      {hasNextPage && <p className={styles.more}><Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>{t("more")}</Button></p>}
    </>
  );
}

function useInbox(which: Which) {
  return useInfiniteQuery({
    queryKey: ["inbox", "list", which],
    queryFn: ({ pageParam }) => need(api.GET("/api/v1/inbox", {
      params: { query: { limit: PER_PAGE, unread: which === "unread", ...(pageParam ? { cursor: pageParam } : {}) } },
    })),
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
  });
}

function useMarkRead() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: { ids: number[]; up_to?: number }) => need(api.POST("/api/v1/inbox/read", { body })),
    onError: toastError,
    onSettled: () => queries.invalidateQueries({ queryKey: ["inbox"] }),
  });
}
