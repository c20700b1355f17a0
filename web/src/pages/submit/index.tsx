import { lazy, Suspense, useMemo, useState } from "react";
import { Link } from "wouter";
import { maySubmit, useCurrentUser } from "../../app/permissions";
import { useTexts } from "../../i18n";
import { Button } from "../../ui/Button";
import { Empty } from "../../ui/Empty";
import { ErrorBox } from "../../ui/ErrorBox";
import { Loading } from "../../ui/Loading";
import { PageHead } from "../../ui/PageHead";
import { Panel } from "../../ui/Panel";
import { Segments } from "../../ui/Segments";
import type { Problem } from "./check";
import { type Mark, spanOf } from "./document";
import { JobForm } from "./JobForm";
import { PlanView } from "./PlanView";
import type { Path } from "./schema";
import styles from "./Submit.module.css";
import { text } from "./texts";
import { useDraft, useSchema } from "./useDraft";

const Editor = lazy(() => import("./Editor"));
type View = "both" | "form" | "yaml";
const NARROW_PX = 760;

export default function SubmitPage() {
  const t = useTexts(text);
  const me = useCurrentUser();
  return (
    <>
      {maySubmit(me) ? <Submit /> : (
        <>
          <PageHead title={t("title")} />
          <Empty text={t("mayNot")} />
        </>
      )}
    </>
  );
}

function Submit() {
  const t = useTexts(text);
  const schema = useSchema();
  const draft = useDraft(schema.data);
  const [view, setView] = useState<View>(() => (window.innerWidth > NARROW_PX ? "both" : "form"));
  const asText = (problem: Problem) => t(`fault.${problem.fault}`, { hint: problem.hint || "–" });
  const errorAt = (path: Path) => {
    if (draft.refusedAt && isSame(draft.refusedAt, path)) return refusalText(draft.refusal);
    const own = draft.problems.find((problem) => isSame(problem.path, path));
    return own ? asText(own) : "";
  };
  const marks = useMarks(draft, asText);
  return (
    <>
      <PageHead title={t("title")}>
        <Segments
          label={t("view")} value={view} onChange={setView}
          options={[["both", t("view.both")], ["form", t("view.form")], ["yaml", t("view.yaml")]]}
        />
      </PageHead>
      {schema.error && <ErrorBox error={schema.error} onRetry={() => void schema.refetch()} />}
      <div className={styles.columns} data-view={view}>
        {view !== "yaml" && (
          <Panel title={t("form")}>
            <JobForm
              yaml={draft.yaml} reading={draft.reading} schema={schema.data} errorAt={errorAt} params={draft.params}
              onYaml={draft.put} onParams={draft.setParams}
            />
          </Panel>
        )}
        {view !== "form" && (
          <Panel title={t("file")} note={t("fileNote")}>
            <Suspense fallback={<Loading />}>
              <Editor label={t("editor")} text={draft.yaml} schema={schema.data} marks={marks} onChange={draft.put} />
            </Suspense>
            <Problems marks={marks} />
          </Panel>
        )}
        <div className={styles.side}><PlanPanel draft={draft} problems={marks.length} /></div>
      </div>
    </>
  );
}

type Draft = ReturnType<typeof useDraft>;

function PlanPanel({ draft, problems }: { draft: Draft; problems: number }) {
  const t = useTexts(text);
  const { plan, send, submission } = draft;
  const isRefused = draft.refusal !== undefined || plan.data?.refused != null;
  return (
    <>
      <Panel title={t("plan")} note={t("planNote")}>
        <div aria-live="polite" className={submission && plan.isSettled ? undefined : styles.pale}>
          {!submission ? <p className={styles.note}>{t("fixFirst", { n: problems })}</p>
            : plan.error ? <ErrorBox error={plan.error} />
            : plan.data ? <PlanView plan={plan.data} gpus={gpusOf(submission.file)} />
            : <Loading />}
        </div>
        <Button kind="primary" disabled={!submission || send.isPending || isRefused} onClick={() => submission && send.mutate(submission)}>
          {t("send")}
        </Button>
        {send.error && <ErrorBox error={send.error} />}
      </Panel>
      {send.data && <Submitted send={send.data} />}
    </>
  );
}

function Submitted({ send }: { send: NonNullable<Draft["send"]["data"]> }) {
  const t = useTexts(text);
  return (
    <div className={styles.sent} role="status">
      <strong>{t("sent", { n: send.jobs.length })}</strong>
      <ul>
        {send.jobs.slice(0, 10).map((job) => <li key={job.id}><Link href={`/jobs/${job.id}`}>{job.name || job.id}</Link></li>)}
      </ul>
      <Link href="/queue">{t("toQueue")}</Link>
      {send.warnings.map((line) => <p key={line}>{line}</p>)}
    </div>
  );
}

function Problems({ marks }: { marks: readonly Mark[] }) {
  if (marks.length === 0) return null;
  return <ul className={styles.problems}>{marks.slice(0, 5).map((mark) => <li key={`${mark.from} ${mark.text}`}>{mark.text}</li>)}</ul>;
}

function useMarks(draft: Draft, asText: (problem: Problem) => string): Mark[] {
  const { reading, problems, refusal, refusedAt } = draft;
  const words = problems.map(asText).join("\n");
  return useMemo(() => {
    const mark = (path: Path, message: string): Mark => {
      const [from, to] = spanOf(reading.document, path);
      return { from, to, text: path.length > 0 ? `${path.join(".")}: ${message}` : message };
    };
    const found = problems.map((problem, at) => mark(problem.path, words.split("\n")[at]!));
    const refused = refusal && refusedAt ? [mark(refusedAt, refusalText(refusal))] : [];
    return [...reading.faults, ...found, ...refused];
  }, [reading, problems, refusal, refusedAt?.join("."), words]);
}

function refusalText(refusal: { message: string; cure: string } | undefined): string {
  return refusal ? (refusal.cure ? `${refusal.message} – ${refusal.cure}` : refusal.message) : "";
}

function isSame(a: Path, b: Path): boolean {
  return a.length === b.length && a.every((step, at) => String(step) === String(b[at]));
}

/** Number of GPUs of all tasks, if the file states it directly. */
function gpusOf(file: Record<string, unknown>): number | null {
  const { gpus, count = 1 } = file;
  return typeof gpus === "number" && typeof count === "number" ? gpus * count : null;
}
