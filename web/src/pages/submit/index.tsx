import { lazy, Suspense, useMemo, useState } from "react";
import { Link } from "wouter";
import { maySubmit, useWho } from "../../app/rights";
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
  const say = useTexts(text);
  const me = useWho();
  return (
    <>
      {maySubmit(me) ? <Submit /> : (
        <>
          <PageHead title={say("title")} />
          <Empty text={say("mayNot")} />
        </>
      )}
    </>
  );
}

function Submit() {
  const say = useTexts(text);
  const schema = useSchema();
  const draft = useDraft(schema.data);
  const [view, setView] = useState<View>(() => (window.innerWidth > NARROW_PX ? "both" : "form"));
  const inWords = (problem: Problem) => say(`fault.${problem.fault}`, { hint: problem.hint || "–" });
  const errorAt = (path: Path) => {
    if (draft.refusedAt && isSame(draft.refusedAt, path)) return wordsOf(draft.refusal);
    const own = draft.problems.find((one) => isSame(one.path, path));
    return own ? inWords(own) : "";
  };
  const marks = useMarks(draft, inWords);
  return (
    <>
      <PageHead title={say("title")}>
        <Segments
          label={say("view")} value={view} onChange={setView}
          options={[["both", say("view.both")], ["form", say("view.form")], ["yaml", say("view.yaml")]]}
        />
      </PageHead>
      {schema.error && <ErrorBox error={schema.error} onRetry={() => void schema.refetch()} />}
      <div className={styles.columns} data-view={view}>
        {view !== "yaml" && (
          <Panel title={say("form")}>
            <JobForm
              yaml={draft.yaml} reading={draft.reading} schema={schema.data} errorAt={errorAt} params={draft.params}
              onYaml={draft.put} onParams={draft.setParams}
            />
          </Panel>
        )}
        {view !== "form" && (
          <Panel title={say("file")} note={say("fileNote")}>
            <Suspense fallback={<Loading />}>
              <Editor label={say("editor")} text={draft.yaml} schema={schema.data} marks={marks} onChange={draft.put} />
            </Suspense>
            <Problems marks={marks} />
          </Panel>
        )}
        <div className={styles.side}><Ahead draft={draft} problems={marks.length} /></div>
      </div>
    </>
  );
}

type Draft = ReturnType<typeof useDraft>;

function Ahead({ draft, problems }: { draft: Draft; problems: number }) {
  const say = useTexts(text);
  const { plan, send, ask } = draft;
  const isRefused = draft.refusal !== undefined || plan.data?.refused != null;
  return (
    <>
      <Panel title={say("plan")} note={say("planNote")}>
        <div aria-live="polite" className={ask && plan.isSettled ? undefined : styles.pale}>
          {!ask ? <p className={styles.note}>{say("mend", { n: problems })}</p>
            : plan.error ? <ErrorBox error={plan.error} />
            : plan.data ? <PlanView plan={plan.data} gpus={gpusOf(ask.file)} />
            : <Loading />}
        </div>
        <Button kind="primary" disabled={!ask || send.isPending || isRefused} onClick={() => ask && send.mutate(ask)}>
          {say("send")}
        </Button>
        {send.error && <ErrorBox error={send.error} />}
      </Panel>
      {send.data && <Sent send={send.data} />}
    </>
  );
}

function Sent({ send }: { send: NonNullable<Draft["send"]["data"]> }) {
  const say = useTexts(text);
  return (
    <div className={styles.sent} role="status">
      <strong>{say("sent", { n: send.jobs.length })}</strong>
      <ul>
        {send.jobs.slice(0, 10).map((job) => <li key={job.id}><Link href={`/jobs/${job.id}`}>{job.name || job.id}</Link></li>)}
      </ul>
      <Link href="/queue">{say("toQueue")}</Link>
      {send.warnings.map((line) => <p key={line}>{line}</p>)}
    </div>
  );
}

function Problems({ marks }: { marks: readonly Mark[] }) {
  if (marks.length === 0) return null;
  return <ul className={styles.problems}>{marks.slice(0, 5).map((one) => <li key={`${one.from} ${one.text}`}>{one.text}</li>)}</ul>;
}

function useMarks(draft: Draft, inWords: (problem: Problem) => string): Mark[] {
  const { reading, problems, refusal, refusedAt } = draft;
  const words = problems.map(inWords).join("\n");
  return useMemo(() => {
    const mark = (path: Path, told: string): Mark => {
      const [from, to] = spanOf(reading.document, path);
      return { from, to, text: path.length > 0 ? `${path.join(".")}: ${told}` : told };
    };
    const found = problems.map((one, at) => mark(one.path, words.split("\n")[at]!));
    const refused = refusal && refusedAt ? [mark(refusedAt, wordsOf(refusal))] : [];
    return [...reading.faults, ...found, ...refused];
  }, [reading, problems, refusal, refusedAt?.join("."), words]);
}

function wordsOf(refusal: { message: string; cure: string } | undefined): string {
  return refusal ? (refusal.cure ? `${refusal.message} – ${refusal.cure}` : refusal.message) : "";
}

function isSame(a: Path, b: Path): boolean {
  return a.length === b.length && a.every((step, at) => String(step) === String(b[at]));
}

/** In all, if the file says it plainly. */
function gpusOf(file: Record<string, unknown>): number | null {
  const { gpus, count = 1 } = file;
  return typeof gpus === "number" && typeof count === "number" ? gpus * count : null;
}
